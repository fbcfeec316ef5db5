// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/shape.h"

namespace lockstep::backend {
namespace {

DType stored_dtype(const loader::ModelConfig& config) {
  if (config.dtype == "float32" || config.dtype == "f32") return DType::kF32;
  if (config.dtype == "float16" || config.dtype == "f16") return DType::kF16;
  return DType::kBF16;
}

/// Scratch and K/V; weights are the caller's.
Expected<MemoryReport> plan_step(const loader::ModelConfig& config, const StepShape& requested, int threads) {
  LOCKSTEP_ASSIGN_OR_RETURN(const StepShape shape, cpu_detail::checked_shape(config, requested));
  // Made and dropped: memory that nobody touches costs nothing, and the figures can't drift from what warm_up books.
  LOCKSTEP_ASSIGN_OR_RETURN(const auto runner,
                            cpu_detail::StepRunner::create(config, /*int8_activations=*/true, shape, threads));
  step::KvGeometry kv;
  kv.num_layers = config.num_layers;
  kv.num_kv_heads = config.num_kv_heads;
  kv.head_dim = config.head_dim;
  kv.block_size = shape.block_size;
  kv.num_blocks = shape.max_num_seqs * ((shape.max_model_len + shape.block_size - 1) / shape.block_size);
  kv.dtype = shape.kv_dtype;
  MemoryReport out;
  out.scratch_bytes = runner.bytes();
  out.kv_bytes = kv.total_bytes();
  return out;
}

}  // namespace

Expected<MemoryReport> CpuBackend::plan(const loader::ModelConfig& config, loader::WeightsMode weights,
                                        const StepShape& shape, int threads) {
  LOCKSTEP_ASSIGN_OR_RETURN(MemoryReport out, plan_step(config, shape, threads));
  out.weight_bytes = loader::decoder_bytes(config, model::decoder_spec(config), weights, stored_dtype(config));
  return out;
}

Expected<MemoryReport> CpuBackend::plan(const loader::Checkpoint& checkpoint, loader::WeightsMode weights,
                                        const StepShape& shape, int threads) {
  const loader::ModelConfig& config = checkpoint.config();
  LOCKSTEP_ASSIGN_OR_RETURN(MemoryReport out, plan_step(config, shape, threads));
  LOCKSTEP_ASSIGN_OR_RETURN(out.weight_bytes, loader::decoder_bytes(checkpoint, model::decoder_spec(config), weights));
  return out;
}

}  // namespace lockstep::backend
