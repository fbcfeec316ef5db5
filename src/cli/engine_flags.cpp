// SPDX-License-Identifier: Apache-2.0
#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/log.h"
#include "cli/progress_bar.h"

namespace lockstep::cli {

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  engine::EngineOptions& engine = flags.engine;
  command
      .add_option("--model", flags.model,
                  "folder with config.json and safetensors files, a .gguf file, or a model of the Hugging Face Hub: "
                  "org/name[@revision][:FILE.gguf]")
      ->required();
  command
      .add_option(
          "--weights", flags.weights,
          "native (as stored), dequantised to bf16 or f32, or bf16dot: activations rounded to bf16 too, for CPUs with "
          "AVX512_BF16")
      ->check(CLI::IsMember({"native", "bf16", "f32", "bf16dot"}))
      ->capture_default_str();
  command
      .add_option("--quantization", flags.quantization,
                  "how to quantise weights while loading: w8a16 (8 bits a weight, 16-bit activations), w8a8 or w4a8; "
                  "none = leave them")
      ->check(CLI::IsMember({"none", "w8a16", "w8a8", "w4a8"}))
      ->capture_default_str();
  command.add_option("--kv-cache-dtype", flags.kv_cache_dtype, "type of the KV cache")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  command.add_option("--threads", flags.threads, "worker threads; 0 = the cores that the process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      .add_option("--max-model-len", engine.max_model_len, "longest prompt + output in tokens; 0 = the model's context")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  command.add_option("--max-num-seqs", engine.max_num_seqs, "requests that run at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--max-num-batched-tokens", engine.max_num_batched_tokens, "token budget of a step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--long-prefill-token-threshold", engine.long_prefill_token_threshold,
                  "tokens of one prompt in one step, at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--block-size", engine.block_size, "tokens of a KV block")
      ->check(CLI::IsMember({16, 32, 64, 128, 256}))
      ->capture_default_str();
  command
      .add_option("--num-kv-blocks", engine.num_kv_blocks,
                  "blocks of the KV pool; 0 = from --kv-cache-memory or the machine's memory")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31))
      ->capture_default_str();
  command
      .add_option("--kv-cache-memory", engine.kv_cache_memory, "bytes of the KV pool; 0 = from the machine's memory")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 50))
      ->capture_default_str();
  command
      .add_option("--memory-utilization", engine.memory_utilization, "share of the memory that the process may take")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", engine.enable_prefix_caching,
                   "reuse the K/V of prompts that begin alike (default: on)");
  command.add_flag("--async-scheduling,!--no-async-scheduling", engine.async_scheduling,
                   "prepare the next step while the backend runs (default: on)");
  command.add_flag("--enable-chunked-prefill,!--no-enable-chunked-prefill", engine.enable_chunked_prefill,
                   "cut long prompts into chunks (default: on)");
  command.add_option("--max-step-width", engine.max_step_width, "sampled positions of a row in one step, at most")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--warmup", [&engine](const std::string& value) { engine.warmup_full = value == "full"; },
          "quick: all rows and one chunk; full: all rows bring the whole token budget")
      ->check(CLI::IsMember({"quick", "full"}));
}

DType kv_dtype(const EngineFlags& flags) { return flags.kv_cache_dtype == "f32" ? DType::kF32 : DType::kBF16; }

Expected<std::shared_ptr<const files::Checkpoint>> open_checkpoint(const EngineFlags& flags) {
  return files::Checkpoint::open(flags.model);
}

Expected<loader::WeightsMode> weights_mode(const EngineFlags& flags) {
  if (flags.quantization != "none") {
    if (flags.weights != "native") {
      return invalid_argument("--quantization {} needs --weights native, not {}: both say what weights become",
                              flags.quantization, flags.weights);
    }
    if (flags.quantization == "w8a16") return loader::WeightsMode::kW8A16;
    return flags.quantization == "w8a8" ? loader::WeightsMode::kW8A8 : loader::WeightsMode::kW4A8;
  }
  if (flags.weights == "f32") return loader::WeightsMode::kF32;
  if (flags.weights == "bf16dot") return loader::WeightsMode::kBF16Dot;
  return flags.weights == "bf16" ? loader::WeightsMode::kBF16 : loader::WeightsMode::kNative;
}

namespace {

Expected<backend::CpuBackendOptions> backend_options(const EngineFlags& flags, std::string isa) {
  backend::CpuBackendOptions options;
  LOCKSTEP_ASSIGN_OR_RETURN(options.weights, weights_mode(flags));
  options.threads = flags.threads;
  options.attention = flags.attention;
  options.isa = std::move(isa);
  return options;
}

}  // namespace

Expected<std::unique_ptr<backend::CpuBackend>> load_backend(
    const EngineFlags& flags, const std::shared_ptr<const files::Checkpoint>& checkpoint) {
  const char* isa = std::getenv("LOCKSTEP_ISA");
  LOCKSTEP_ASSIGN_OR_RETURN(backend::CpuBackendOptions options, backend_options(flags, isa == nullptr ? "" : isa));
  ProgressBar bar("loading " + checkpoint->path(), 1e6, "MB");
  options.progress = [&bar](int64_t done, int64_t total) { bar.update(done, total); };
  LOCKSTEP_ASSIGN_OR_RETURN(auto loaded, backend::CpuBackend::load(checkpoint, options));
  bar.finish();
  log_info("{}", loaded->describe());
  return loaded;
}

Expected<std::unique_ptr<backend::CpuBackend>> load_backend_quietly(
    const EngineFlags& flags, const std::shared_ptr<const files::Checkpoint>& checkpoint, const std::string& isa) {
  LOCKSTEP_ASSIGN_OR_RETURN(const backend::CpuBackendOptions options, backend_options(flags, isa));
  return backend::CpuBackend::load(checkpoint, options);
}

std::vector<int32_t> end_tokens(const files::Checkpoint& checkpoint) {
  const auto& generation = checkpoint.generation_config().eos_token_ids;
  return generation.empty() ? checkpoint.config().eos_token_ids : generation;
}

Expected<std::unique_ptr<engine::Engine>> make_engine(const EngineFlags& flags,
                                                      std::unique_ptr<backend::CpuBackend> backend,
                                                      std::vector<int32_t> end_token_ids) {
  engine::EngineOptions options = flags.engine;
  options.kv_dtype = kv_dtype(flags);
  options.eos_token_ids = std::move(end_token_ids);
  return engine::Engine::create(std::move(backend), std::move(options));
}

Expected<std::unique_ptr<engine::Engine>> load_engine(const EngineFlags& flags,
                                                      const std::shared_ptr<const files::Checkpoint>& checkpoint,
                                                      std::vector<int32_t> end_token_ids) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto backend, load_backend(flags, checkpoint));
  return make_engine(flags, std::move(backend), std::move(end_token_ids));
}

}  // namespace lockstep::cli
