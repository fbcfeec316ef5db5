// SPDX-License-Identifier: Apache-2.0
// The device interface. Coarse: a step is one call. Any backend that passes tests/backend_conformance can be used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "step/step.h"
#include "step/validate.h"

namespace lockstep::backend {

struct Capabilities {
  std::vector<int64_t> batch_sizes;  ///< row counts that a call may have; empty = any in 1..max_num_seqs
  std::vector<int64_t> block_sizes;  ///< KV block sizes, ascending
  std::vector<DType> kv_dtypes;
  int64_t max_step_width = step::kTokenWidth;
  int64_t max_model_len = 0;      ///< the most that may be served, tokens
  int64_t default_model_len = 0;  ///< served unless told otherwise; 0: max_model_len
  int64_t vocab_size = 0;
  int64_t padded_vocab = 0;
  int64_t hidden_size = 0;
  int64_t num_layers = 0, num_kv_heads = 0, head_dim = 0;
};

/// The largest step that will be asked for. Fixes the sizes of all scratch.
struct StepShape {
  int64_t max_num_seqs = 16;
  int64_t max_num_batched_tokens = 4096;
  int64_t max_step_width = 1;  ///< sampled positions a row; S <= max_num_seqs * max_step_width
  int64_t max_model_len = 0;
  int64_t block_size = 16;
  DType kv_dtype = DType::kBF16;
  bool full_warm_up =
      false;  ///< run max_num_seqs rows that bring max_num_batched_tokens tokens in all; else all rows plus one chunk
};

struct MemoryReport {
  int64_t weight_bytes = 0;
  int64_t scratch_bytes = 0;
  int64_t kv_bytes = 0;
};

/// Device memory that the caller owns; freed on destruction, before the backend.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual const step::DeviceView& view() const = 0;
};

/// Names a submitted step.
struct StepTicket {
  uint64_t id = 0;
};

/// One per device or tensor-parallel group. Order of calls: construct (loads weights), warm_up, allocate_kv, then
/// steps. One thread may call at a time, except memory() and capabilities(), which are thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual Capabilities capabilities() const = 0;
  /// Books and touches all scratch for `shape` and runs a step of it on temporary pages, which are freed before it
  /// returns.
  virtual Status warm_up(const StepShape& shape) = 0;
  /// Allocates the KV pool. kResourceExhausted if the memory is not there (nothing is kept then; call again with less).
  virtual Status allocate_kv(const step::KvGeometry& geometry) = 0;

  /// Refuses what submit() would refuse; writes nothing.
  virtual Status validate(const step::StepArgs& args, const step::StepOutputs& outputs) const = 0;
  /// Validates and starts a step. At most two in flight, in order. Args and output storage must live until wait().
  virtual Expected<StepTicket> submit(const step::StepArgs& args, const step::StepOutputs& outputs) = 0;
  /// Blocks until the step is done. After an error the step's KV and outputs are undefined, the backend stays usable.
  virtual Status wait(StepTicket ticket) = 0;

  /// rank 1: {n}; rank 2: {rows, columns}. Zero-initialised.
  virtual Expected<std::unique_ptr<DeviceBuffer>> allocate(DType dtype, int64_t rows, int64_t columns, int rank) = 0;
  /// Copies elements of a view to host memory; bytes must be the view's size. Only after wait().
  virtual Status read(const step::DeviceView& view, void* host, int64_t bytes) const = 0;
  /// Copies block `from` to `to` over all layers (copy-on-write). Between steps only.
  virtual Status copy_block(int64_t from, int64_t to) = 0;

  virtual MemoryReport memory() const = 0;
  /// One line about what was chosen (device, instruction set, threads), for the start-up log.
  virtual std::string describe() const = 0;
};

}  // namespace lockstep::backend
