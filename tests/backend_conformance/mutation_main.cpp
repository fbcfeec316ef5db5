// SPDX-License-Identifier: Apache-2.0
// The old fault, kept alive on purpose: a backend that always runs capacity rows, rows B.. copied from row 0, past
// validation. That is how the system that Lockstep re-creates once served a runtime batch: several lanes wrote one KV
// slot, and rows nobody asked for were written. The sentinel tests must fail on it: this program succeeds if they do,
// and fails if they let it pass.
#include <algorithm>
#include <cstdio>
#include <list>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "cpu_subject.h"
#include "gtest/gtest.h"
#include "subject.h"

namespace lockstep::backend {

/// CpuBackend's friend: the way past validation.
struct CpuBackendMutation {
  static Expected<StepTicket> dispatch(CpuBackend& backend, const step::StepArgs& args,
                                       const step::StepOutputs& outputs) {
    return backend.dispatch(args, outputs);
  }
};

}  // namespace lockstep::backend

namespace lockstep::conformance {
namespace {

using step::DeviceView;

/// A step of `capacity` rows made from one of fewer decode rows of one token. Owns the copies of all arguments.
class PaddedStep {
 public:
  PaddedStep(const step::StepArgs& args, const step::StepOutputs& outputs, int64_t capacity) : capacity_(capacity) {
    args_ = args;
    args_.num_decode_rows = capacity;
    args_.token_ids = rows_of(args.token_ids);
    args_.token_source = rows_of(args.token_source);
    args_.query_lens = rows_of(args.query_lens);
    args_.seq_lens = rows_of(args.seq_lens);
    args_.sample_counts = rows_of(args.sample_counts);
    args_.block_table = rows_of(args.block_table);
    args_.slot_mapping = rows_of(args.slot_mapping);
    args_.sampling = {};  // greedy, with the logprobs that were asked for
    args_.sampling.logprobs_k = rows_of(args.sampling.logprobs_k);
    outputs_.sampled_ids = whole(outputs.sampled_ids);
    outputs_.row_status = whole(outputs.row_status);
    outputs_.logprobs = whole(outputs.logprobs);
    outputs_.top_ids = whole(outputs.top_ids);
    outputs_.top_logprobs = whole(outputs.top_logprobs);
  }

  const step::StepArgs& args() const { return args_; }
  const step::StepOutputs& outputs() const { return outputs_; }

 private:
  /// Rows past the given ones are copies of row 0.
  View<const int32_t> rows_of(const View<const int32_t>& view) {
    if (view.empty()) return {};
    const int64_t columns = view.rank() == 2 ? view.extent(1) : 1;
    std::vector<int32_t>& copy = storage_.emplace_back();
    for (int64_t row = 0; row < capacity_; ++row) {
      const int32_t* from = view.row(row < view.extent(0) ? row : 0);
      copy.insert(copy.end(), from, from + columns);
    }
    if (view.rank() == 2) return View<const int32_t>(copy.data(), {capacity_, columns});
    return View<const int32_t>(copy.data(), {capacity_});
  }
  /// The storage behind the prefix has the capacity.
  DeviceView whole(const DeviceView& view) const {
    if (view.empty()) return {};
    if (view.rank() == 2) return DeviceView(view.backend_address(), view.dtype(), {capacity_, view.extent(1)});
    return DeviceView(view.backend_address(), view.dtype(), {capacity_});
  }

  int64_t capacity_;
  std::list<std::vector<int32_t>> storage_;
  step::StepArgs args_;
  step::StepOutputs outputs_;
};

class MutatedBackend final : public backend::Backend {
 public:
  MutatedBackend(std::unique_ptr<backend::Backend> inner, int64_t capacity)
      : inner_(std::move(inner)), capacity_(capacity) {}

  backend::Backend& inner() { return *inner_; }
  backend::Capabilities capabilities() const override { return inner_->capabilities(); }
  Status warm_up(const backend::StepShape& shape) override { return inner_->warm_up(shape); }
  Status allocate_kv(const step::KvGeometry& geometry) override { return inner_->allocate_kv(geometry); }
  Status validate(const step::StepArgs& args, const step::StepOutputs& outputs) const override {
    return inner_->validate(args, outputs);
  }
  Expected<backend::StepTicket> submit(const step::StepArgs& args, const step::StepOutputs& outputs) override {
    const int64_t rows = args.query_lens.extent(0);
    const bool one_token_each =
        std::all_of(args.query_lens.data(), args.query_lens.data() + rows, [](int32_t n) { return n == 1; });
    if (args.num_decode_rows != rows || rows == capacity_ || !one_token_each) return inner_->submit(args, outputs);
    const PaddedStep& padded = padded_.emplace_back(args, outputs, capacity_);
    return backend::CpuBackendMutation::dispatch(dynamic_cast<backend::CpuBackend&>(*inner_), padded.args(),
                                                 padded.outputs());
  }
  Status wait(backend::StepTicket ticket) override { return inner_->wait(ticket); }
  Expected<std::unique_ptr<backend::DeviceBuffer>> allocate(DType dtype, int64_t rows, int64_t columns,
                                                            int rank) override {
    return inner_->allocate(dtype, rows, columns, rank);
  }
  Status read(const DeviceView& view, void* host, int64_t bytes) const override {
    return inner_->read(view, host, bytes);
  }
  Status copy_block(int64_t from, int64_t to) override { return inner_->copy_block(from, to); }
  backend::MemoryReport memory() const override { return inner_->memory(); }
  std::string describe() const override { return "mutation of " + inner_->describe(); }

 private:
  std::list<PaddedStep> padded_;
  std::unique_ptr<backend::Backend> inner_;
  int64_t capacity_;
};

class MutatedSubject final : public Subject {
 public:
  std::vector<std::string> models() const override { return {cpu_subject().models().front()}; }
  std::vector<std::string> variants() const override { return {""}; }
  Expected<std::unique_ptr<backend::Backend>> make(const EngineSetup& setup) override {
    LOCKSTEP_ASSIGN_OR_RETURN(auto inner, cpu_subject().make(setup));
    return std::make_unique<MutatedBackend>(std::move(inner), setup.shape.max_num_seqs);
  }
  void fill(const DeviceView& view, uint32_t word) override { cpu_subject().fill(view, word); }
  void fill_block(backend::Backend& backend, int64_t block, uint32_t word) override {
    cpu_subject().fill_block(inner(backend), block, word);
  }
  bool block_holds(backend::Backend& backend, int64_t block, uint32_t word) override {
    return cpu_subject().block_holds(inner(backend), block, word);
  }
  void protect_block(backend::Backend& backend, int64_t block) override {
    cpu_subject().protect_block(inner(backend), block);
  }

 private:
  static backend::Backend& inner(backend::Backend& backend) { return dynamic_cast<MutatedBackend&>(backend).inner(); }
};

}  // namespace

Subject& subject() {
  static MutatedSubject instance;
  return instance;
}

}  // namespace lockstep::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::GTEST_FLAG(filter) = "Sentinels.BatchesOfOneToSeventeen";
  const int status = RUN_ALL_TESTS();
  const auto& results = *testing::UnitTest::GetInstance();
  if (results.test_to_run_count() != 1) {
    std::puts("the sentinel test was not found");
    return 1;
  }
  std::puts(status != 0 ? "the sentinel test finds the old fault, as it must" : "THE OLD FAULT WENT UNNOTICED");
  return status != 0 ? 0 : 1;
}
