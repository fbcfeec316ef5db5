// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/shape.h"
#include "base/log.h"

namespace lockstep::backend {
namespace {

class HostBuffer final : public DeviceBuffer {
 public:
  HostBuffer(Buffer storage, step::DeviceView view) : storage_(std::move(storage)), view_(view) {}
  const step::DeviceView& view() const override { return view_; }

 private:
  Buffer storage_;
  step::DeviceView view_;
};

}  // namespace

Expected<std::unique_ptr<CpuBackend>> CpuBackend::load(std::shared_ptr<const loader::Checkpoint> checkpoint,
                                                       const CpuBackendOptions& options) {
  constexpr int kMaxThreads = 1024;
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return invalid_argument("threads is {}, expected 0 (all granted cores) to {}", options.threads, kMaxThreads);
  }
  std::unique_ptr<CpuBackend> out(new CpuBackend());
  out->checkpoint_ = std::move(checkpoint);
  out->weights_mode_ = options.weights;
  out->attention_ = options.attention;
  out->attend_contiguous_ = options.attention == Attention::kContiguous;
  LOCKSTEP_ASSIGN_OR_RETURN(out->context_.kernels, kernels::select_kernels(options.isa));
  if (options.weights == loader::WeightsMode::kBF16Dot && out->context_.kernels->isa != "avx512bf16") {
    log_warning("weights bf16dot: {} has no bf16 dot products; they are emulated, slower than --weights bf16",
                out->context_.kernels->isa);
  }
  const int threads = options.threads > 0 ? options.threads : lockstep::cpu::available_cores();
  out->pool_ = std::make_unique<lockstep::cpu::ThreadPool>(threads, options.pin_threads);
  out->context_.pool = out->pool_.get();
  LOCKSTEP_ASSIGN_OR_RETURN(out->model_,
                            model::Model::create(out->context_, *out->checkpoint_, options.weights, options.progress));
  out->memory_.weight_bytes = out->model_->weights().bytes();
  out->executor_ =
      std::make_unique<cpu_detail::Executor>([backend = out.get()](const cpu_detail::Job& job) { backend->run(job); });
  return out;
}

CpuBackend::~CpuBackend() = default;

Capabilities CpuBackend::capabilities() const {
  const loader::ModelConfig& config = model_->config();
  Capabilities out;
  out.block_sizes = cpu_detail::block_sizes();
  out.kv_dtypes = {DType::kBF16, DType::kF32};
  out.max_model_len = config.longest_context();
  out.default_model_len = config.max_position;
  out.vocab_size = config.vocab_size;
  out.padded_vocab = cpu_detail::padded_vocab(config.vocab_size);
  out.hidden_size = config.hidden_size;
  out.num_layers = config.num_layers;
  out.num_kv_heads = config.num_kv_heads;
  out.head_dim = config.head_dim;
  return out;
}

Status CpuBackend::warm_up(const StepShape& requested) {
  if (runner_) return error(StatusCode::kFailedPrecondition, "warm_up was called before");
  LOCKSTEP_ASSIGN_OR_RETURN(const StepShape shape, cpu_detail::checked_shape(model_->config(), requested));
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto runner, cpu_detail::StepRunner::create(model_->config(), model_->int8_activations(), shape, pool_->size()));
  runner_.emplace(std::move(runner));
  limits_ = cpu_detail::step_limits(model_->config(), shape);
  validation_.emplace(limits_);
  history_ = cpu_detail::StepHistory(shape.max_num_seqs);
  runner_->touch();
  Status status = run_warm_up_step(shape);
  if (!status.ok()) {
    runner_.reset();
    return status;
  }
  const std::lock_guard lock(memory_mutex_);
  memory_.scratch_bytes = runner_->bytes();
  return {};
}

Status CpuBackend::run_warm_up_step(const StepShape& shape) {
  const cpu_detail::WarmUpStep step(shape, limits_);
  LOCKSTEP_ASSIGN_OR_RETURN(kv_, cpu_detail::KvPool::create(step.geometry(model_->config())));
  limits_.kv = kv_.geometry();
  const auto ticket = submit(step.args(), step.outputs());
  const Status status = ticket ? wait(*ticket) : ticket.error();
  kv_ = {};
  limits_.kv = {};
  history_ = cpu_detail::StepHistory(shape.max_num_seqs);
  return status.with_context("warm-up");
}

Status CpuBackend::allocate_kv(const step::KvGeometry& geometry) {
  if (!runner_) return error(StatusCode::kFailedPrecondition, "allocate_kv before warm_up");
  LOCKSTEP_RETURN_IF_ERROR(cpu_detail::check_geometry(model_->config(), geometry));
  executor_->drain();
  kv_ = {};
  limits_.kv = {};
  contiguous_.reset();
  LOCKSTEP_ASSIGN_OR_RETURN(cpu_detail::KvPool pool, cpu_detail::KvPool::create(geometry));
  if (attention_ == Attention::kContiguous) LOCKSTEP_RETURN_IF_ERROR(allocate_contiguous(geometry));
  kv_ = std::move(pool);
  limits_.kv = geometry;
  const std::lock_guard lock(memory_mutex_);
  memory_.kv_bytes = kv_.bytes() + (contiguous_ ? contiguous_->bytes() : 0);
  return {};
}

Status CpuBackend::allocate_contiguous(const step::KvGeometry& geometry) {
  LOCKSTEP_ASSIGN_OR_RETURN(contiguous_, cpu_detail::ContiguousStore::create({.num_layers = geometry.num_layers,
                                                                              .num_rows = limits_.max_num_seqs,
                                                                              .num_heads = model_->config().num_heads,
                                                                              .num_kv_heads = geometry.num_kv_heads,
                                                                              .head_dim = geometry.head_dim,
                                                                              .max_model_len = limits_.max_model_len,
                                                                              .dtype = geometry.dtype,
                                                                              .threads = pool_->size()}));
  return {};
}

Status CpuBackend::validate(const step::StepArgs& args, const step::StepOutputs& outputs) const {
  if (kv_.empty()) return error(StatusCode::kFailedPrecondition, "a step before warm_up and allocate_kv");
  LOCKSTEP_RETURN_IF_ERROR(step::validate_step(args, outputs, limits_, *validation_));
  return history_.check(args);
}

Expected<StepTicket> CpuBackend::submit(const step::StepArgs& args, const step::StepOutputs& outputs) {
  LOCKSTEP_RETURN_IF_ERROR(validate(args, outputs));
  return dispatch(args, outputs);
}

Expected<StepTicket> CpuBackend::dispatch(const step::StepArgs& args, const step::StepOutputs& outputs) {
  if (executor_->in_flight() >= cpu_detail::Executor::kInFlight) {
    return error(StatusCode::kFailedPrecondition, "{} steps are in flight, wait for one before the next submit",
                 executor_->in_flight());
  }
  return executor_->submit({args, outputs, history_.plan(args, outputs)});
}

void CpuBackend::run(const cpu_detail::Job& job) {
  runner_->run(context_, *model_, kv_, contiguous_ && attend_contiguous_ ? &*contiguous_ : nullptr, history_, job);
}

Status CpuBackend::wait(StepTicket ticket) { return executor_->wait(ticket); }

Expected<std::unique_ptr<DeviceBuffer>> CpuBackend::allocate(DType dtype, int64_t rows, int64_t columns, int rank) {
  if (rank != 1 && rank != 2) return invalid_argument("rank is {}, expected 1 or 2", rank);
  int64_t elements = 0;
  const bool overflow = rows < 0 || (rank == 2 && columns < 0) ||
                        __builtin_mul_overflow(rows, rank == 2 ? columns : int64_t{1}, &elements);
  const auto bytes = overflow ? std::nullopt : dtype_bytes(dtype, elements);
  if (!bytes) return invalid_argument("a buffer of {} x {} {} can't be made", rows, columns, to_string(dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(Buffer storage, Buffer::allocate(std::max<int64_t>(*bytes, 1), "step buffer"));
  storage.touch();
  const step::DeviceView view = rank == 1 ? step::DeviceView(storage.data(), dtype, {rows})
                                          : step::DeviceView(storage.data(), dtype, {rows, columns});
  return std::unique_ptr<DeviceBuffer>(new HostBuffer(std::move(storage), view));
}

Status CpuBackend::read(const step::DeviceView& view, void* host, int64_t bytes) const {
  const auto expected = dtype_bytes(view.dtype(), view.elements());
  if (!expected || *expected != bytes) {
    return invalid_argument("read of {} bytes from a view of {}", bytes, expected.value_or(-1));
  }
  if (bytes > 0) std::memcpy(host, view.backend_address(), static_cast<size_t>(bytes));
  return {};
}

Status CpuBackend::copy_block(int64_t from, int64_t to) {
  if (kv_.empty()) return error(StatusCode::kFailedPrecondition, "copy_block before allocate_kv");
  for (const int64_t block : {from, to}) {
    if (block < 0 || block >= kv_.geometry().num_blocks) {
      return invalid_argument("copy_block: block {}, expected 0 to {}", block, kv_.geometry().num_blocks - 1);
    }
  }
  executor_->drain();
  kv_.copy_block(from, to);
  return {};
}

Status CpuBackend::fill_kv() {
  if (kv_.empty()) return error(StatusCode::kFailedPrecondition, "fill_kv before allocate_kv");
  executor_->drain();
  kv_.fill();
  return {};
}

Status CpuBackend::use_attention(Attention attention) {
  if (attention_ != Attention::kContiguous) {
    return error(StatusCode::kFailedPrecondition, "the backend was made for paged attention only");
  }
  executor_->drain();
  attend_contiguous_ = attention == Attention::kContiguous;
  return {};
}

MemoryReport CpuBackend::memory() const {
  const std::lock_guard lock(memory_mutex_);
  return memory_;
}

std::string CpuBackend::describe() const {
  return fmt::format("cpu {}, {} threads, weights {} ({}){}", context_.kernels->isa, pool_->size(),
                     to_string(weights_mode_),
                     kernels::to_string(model_->weights().layers.front().qkv.parts.front().matrix.format()),
                     attention_ == Attention::kContiguous ? ", contiguous attention" : "");
}

}  // namespace lockstep::backend
