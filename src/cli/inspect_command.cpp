// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/local_model.h"
#include "cpu/features.h"
#include "cpu/thread_pool.h"
#include "files/checkpoint.h"
#include "kernels/table.h"

namespace lockstep::cli {
namespace {

std::string size_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{:.1f} kB", value / 1e3);
}

std::string rope_text(const files::RopeConfig& rope) {
  switch (rope.type) {
    case files::RopeType::kDefault:
      return fmt::format("theta {:g}", rope.theta);
    case files::RopeType::kLinear:
      return fmt::format("theta {:g}, linear x {:g}", rope.theta, rope.factor);
    case files::RopeType::kLlama3:
      return fmt::format("theta {:g}, llama3 x {:g}", rope.theta, rope.factor);
    case files::RopeType::kYarn:
      return fmt::format("theta {:g}, yarn x {:g}", rope.theta, rope.factor);
    case files::RopeType::kDynamic:
      return fmt::format("theta {:g}, dynamic x {:g}", rope.theta, rope.factor);
    case files::RopeType::kLongRope:
      return fmt::format("theta {:g}, longrope from {} tokens", rope.theta, rope.original_max_position);
  }
  return {};
}

void print_config(const files::ModelConfig& config) {
  fmt::print("architecture   {}\n", files::to_string(config.architecture));
  fmt::print("layers         {}\n", config.num_layers);
  fmt::print("hidden         {} (intermediate {})\n", config.hidden_size, config.intermediate_size);
  fmt::print("heads          {} query, {} kv, of {}\n", config.num_heads, config.num_kv_heads, config.head_dim);
  fmt::print("vocabulary     {} ({} head)\n", config.vocab_size, config.tie_word_embeddings ? "tied" : "untied");
  fmt::print("context        {} tokens\n", config.max_position);
  fmt::print("rope           {}\n", rope_text(config.rope));
  fmt::print("end tokens     {}\n", fmt::join(config.eos_token_ids, ", "));
}

void print_tensors(const files::Checkpoint& checkpoint) {
  struct Sum {
    int64_t tensors = 0, elements = 0, bytes = 0;
  };
  std::map<std::string, Sum> types;
  for (const files::TensorInfo& tensor : checkpoint.tensors()) {
    Sum& sum = types[std::string(to_string(tensor.dtype))];
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    ++sum.tensors;
    sum.elements += elements;
    sum.bytes += tensor.stored_bytes();
  }
  for (const auto& [name, sum] : types) {
    fmt::print("tensors        {:>4} of {:<5} {:>8.1f} M elements, {}\n", sum.tensors, name,
               static_cast<double>(sum.elements) / 1e6, size_text(sum.bytes));
  }
}

/// `checkpoint` may be nullptr: then the config says what the weights take.
Status print_memory(const EngineFlags& flags, const files::ModelConfig& config, const files::Checkpoint* checkpoint) {
  backend::StepShape shape;
  shape.max_num_seqs = flags.engine.max_num_seqs;
  shape.max_num_batched_tokens = flags.engine.max_num_batched_tokens;
  shape.max_step_width = flags.engine.max_step_width;
  shape.max_model_len = flags.engine.max_model_len > 0 ? flags.engine.max_model_len : config.max_position;
  shape.block_size = flags.engine.block_size;
  shape.kv_dtype = kv_dtype(flags);
  const int threads = flags.threads > 0 ? flags.threads : cpu::available_cores();
  LOCKSTEP_ASSIGN_OR_RETURN(const loader::WeightsMode mode, weights_mode(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(const backend::MemoryReport plan,
                            checkpoint == nullptr ? backend::CpuBackend::plan(config, mode, shape, threads)
                                                  : backend::CpuBackend::plan(*checkpoint, mode, shape, threads));
  fmt::print("weights        {} packed ({})\n", size_text(plan.weight_bytes), loader::to_string(mode));
  const int64_t token_bytes = config.kv_elements_per_token() * dtype_info(shape.kv_dtype).block_bytes;
  fmt::print("KV             {} per token ({}), {} for {} requests of {} tokens\n", size_text(token_bytes),
             to_string(shape.kv_dtype), size_text(plan.kv_bytes), shape.max_num_seqs, shape.max_model_len);
  fmt::print("scratch        {} for {} requests, {} tokens a step\n", size_text(plan.scratch_bytes), shape.max_num_seqs,
             shape.max_num_batched_tokens);
  return {};
}

Status print_machine() {
  const char* isa = std::getenv("LOCKSTEP_ISA");
  LOCKSTEP_ASSIGN_OR_RETURN(const kernels::KernelTable* table, kernels::select_kernels(isa == nullptr ? "" : isa));
  fmt::print("machine        {}, {} cores granted, kernels {}\n", cpu::cpu_name(), cpu::available_cores(), table->isa);
  return {};
}

/// A directory with nothing but config.json is enough for shapes and memory.
bool has_only_config(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path / "config.json", ignored)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    if (entry.path().extension() == ".safetensors") return false;
  }
  return true;
}

Status inspect(EngineFlags& flags) {
  fmt::print("model          {}\n", flags.model);
  LOCKSTEP_RETURN_IF_ERROR(make_local(flags));
  files::ModelConfig config;
  std::shared_ptr<const files::Checkpoint> checkpoint;
  if (has_only_config(flags.model)) {
    LOCKSTEP_ASSIGN_OR_RETURN(config, files::load_model_config(std::filesystem::path(flags.model) / "config.json"));
    print_config(config);
    fmt::print("tensors        none: only config.json is there\n");
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(checkpoint, open_checkpoint(flags));
    config = checkpoint->config();
    config.eos_token_ids = end_tokens(*checkpoint);
    print_config(config);
    print_tensors(*checkpoint);
  }
  LOCKSTEP_RETURN_IF_ERROR(print_memory(flags, config, checkpoint.get()));
  return print_machine();
}

}  // namespace

void add_inspect_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("inspect", "what a model is and needs: shapes, types, bytes, memory, kernels");
  const auto flags = std::make_shared<EngineFlags>();
  add_engine_flags(*command, *flags);
  command->callback([flags, &run] {
    run = [flags] {
      const Status status = inspect(*flags);
      return status.ok() ? 0 : report_error(status);
    };
  });
}

}  // namespace lockstep::cli
