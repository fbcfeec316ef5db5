// SPDX-License-Identifier: Apache-2.0
// The CPU backend: a model's weights, a pool of threads and the paged K/V store of one process.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/contiguous_store.h"
#include "backend/cpu/executor.h"
#include "backend/cpu/kv_pool.h"
#include "backend/cpu/step_history.h"
#include "backend/cpu/step_runner.h"
#include "cpu/thread_pool.h"
#include "loader/load.h"
#include "model/model.h"

namespace lockstep::backend {

/// kContiguous writes K/V a second time, in one piece for each of max_num_seqs sequences, and attends over that: the
/// baseline of benchmarks and conformance tests, with the same bits. allocate_kv books it beside the pages. For engines
/// that share no pages between sequences (backend/cpu/contiguous_store.h).
enum class Attention { kPaged, kContiguous };

struct CpuBackendOptions {
  loader::WeightsMode weights = loader::WeightsMode::kNative;
  int threads = 0;          ///< 0 = the cores that this process is granted; else 1..1024
  bool pin_threads = true;  ///< to cores, when there are no more threads than granted cores
  std::string isa =
      {};  ///< "" = the best that passes its self-check, else "ref", "avx2", "avx512", "avx512vnni", "avx512bf16"
  Attention attention = Attention::kPaged;
  loader::Progress progress = {};  ///< bytes of the file read so far and in all; may be empty
};

/// Thread-safety as Backend. Steps run on a thread of the backend's own (and the pool's workers), two may be in flight.
class CpuBackend final : public Backend {
 public:
  /// Chooses kernels, starts threads, loads the weights. Errors name file, tensor, expected and found, or the option.
  static Expected<std::unique_ptr<CpuBackend>> load(std::shared_ptr<const loader::Checkpoint> checkpoint,
                                                    const CpuBackendOptions& options);
  /// Sizes from the config alone: weights as the config's dtype (bf16 if it has none) in `weights` mode; scratch of
  /// `shape`; KV for max_num_seqs sequences of max_model_len tokens. Fields of 0 in shape are filled as warm_up does.
  static Expected<MemoryReport> plan(const loader::ModelConfig& config, loader::WeightsMode weights,
                                     const StepShape& shape, int threads);
  /// The same with the weights of a checkpoint. Errors as load.
  static Expected<MemoryReport> plan(const loader::Checkpoint& checkpoint, loader::WeightsMode weights,
                                     const StepShape& shape, int threads);
  ~CpuBackend() override;

  Capabilities capabilities() const override;
  /// max_model_len of 0 = the model's context; more than that is refused.
  Status warm_up(const StepShape& shape) override;
  Status allocate_kv(const step::KvGeometry& geometry) override;
  Status validate(const step::StepArgs& args, const step::StepOutputs& outputs) const override;
  Expected<StepTicket> submit(const step::StepArgs& args, const step::StepOutputs& outputs) override;
  Status wait(StepTicket ticket) override;
  Expected<std::unique_ptr<DeviceBuffer>> allocate(DType dtype, int64_t rows, int64_t columns, int rank) override;
  Status read(const step::DeviceView& view, void* host, int64_t bytes) const override;
  /// Waits for the steps in flight first.
  Status copy_block(int64_t from, int64_t to) override;
  MemoryReport memory() const override;
  std::string describe() const override;

  const kernels::KernelTable& kernels() const { return *context_.kernels; }
  int threads() const { return pool_->size(); }
  const loader::DecoderWeights& weights() const { return model_->weights(); }
  /// For benchmarks, between steps: random finite K/V in every block of the pool, so that decode steps at a long
  /// context need no prefill. kFailedPrecondition before allocate_kv.
  Status fill_kv();
  /// For benchmarks, between steps: which of the two a backend made with kContiguous uses from now on. A sequence that
  /// goes on over contiguous K/V has it copied from its pages first. kFailedPrecondition for one made without.
  Status use_attention(Attention attention);
  /// For tests that poison pages: the pool's storage.
  const cpu_detail::KvPool& kv_pool() const { return kv_; }
  /// For tests: nullptr unless attention is kContiguous and allocate_kv was called.
  const cpu_detail::ContiguousStore* contiguous_store() const { return contiguous_ ? &*contiguous_ : nullptr; }

 private:
  friend struct CpuBackendMutation;  ///< tests/backend_conformance/mutation_main.cpp

  CpuBackend() = default;
  /// submit() behind validation.
  Expected<StepTicket> dispatch(const step::StepArgs& args, const step::StepOutputs& outputs);
  void run(const cpu_detail::Job& job);
  Status run_warm_up_step(const StepShape& shape);
  Status allocate_contiguous(const step::KvGeometry& geometry);

  std::shared_ptr<const loader::Checkpoint> checkpoint_;
  loader::WeightsMode weights_mode_ = loader::WeightsMode::kNative;
  std::unique_ptr<lockstep::cpu::ThreadPool> pool_;
  ops::Context context_;
  std::unique_ptr<model::Model> model_;
  std::optional<cpu_detail::StepRunner> runner_;  ///< after warm_up
  step::StepLimits limits_;
  mutable std::optional<step::ValidationScratch> validation_;
  cpu_detail::StepHistory history_;
  cpu_detail::KvPool kv_;
  Attention attention_ = Attention::kPaged;
  bool attend_contiguous_ = false;  ///< steps use contiguous_
  std::optional<cpu_detail::ContiguousStore> contiguous_;
  mutable std::mutex memory_mutex_;
  MemoryReport memory_;                             ///< under memory_mutex_
  std::unique_ptr<cpu_detail::Executor> executor_;  ///< last: its thread uses the rest
};

}  // namespace lockstep::backend
