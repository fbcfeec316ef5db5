// SPDX-License-Identifier: Apache-2.0
// The flags that every command with a model has, and what they load.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "base/status.h"
#include "engine/engine.h"
#include "files/checkpoint.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

struct EngineFlags {
  std::string model;                                          ///< directory, .gguf file or Hub name (local_model.h)
  std::string tokenizer;                                      ///< directory or .gguf file; "" = the model's own
  std::string weights = "native";                             ///< native, bf16, f32
  std::string quantization = "none";                          ///< none, w8a16, w8a8, w4a8
  std::string kv_cache_dtype = "bf16";                        ///< bf16, f32
  int threads = 0;                                            ///< 0: all cores granted to the process
  backend::Attention attention = backend::Attention::kPaged;  ///< `bench` alone offers another
  engine::EngineOptions engine;                               ///< the rest; see its fields
};

/// Defines --model and the engine flags on a subcommand.
void add_engine_flags(CLI::App& command, EngineFlags& flags);

/// Opens the checkpoint and loads the weights with a progress bar on stderr. LOCKSTEP_ISA forces an instruction set.
Expected<std::shared_ptr<const files::Checkpoint>> open_checkpoint(const EngineFlags& flags);
Expected<std::unique_ptr<backend::CpuBackend>> load_backend(const EngineFlags& flags,
                                                            const std::shared_ptr<const files::Checkpoint>& checkpoint);
/// The same without a bar and a log line, with the instruction set `isa` ("" = the best).
Expected<std::unique_ptr<backend::CpuBackend>> load_backend_quietly(
    const EngineFlags& flags, const std::shared_ptr<const files::Checkpoint>& checkpoint, const std::string& isa);
/// Engine::create with the flags' options.
Expected<std::unique_ptr<engine::Engine>> make_engine(const EngineFlags& flags,
                                                      std::unique_ptr<backend::CpuBackend> backend,
                                                      std::vector<int32_t> end_token_ids);
/// load_backend and make_engine.
Expected<std::unique_ptr<engine::Engine>> load_engine(const EngineFlags& flags,
                                                      const std::shared_ptr<const files::Checkpoint>& checkpoint,
                                                      std::vector<int32_t> end_token_ids);
/// The end tokens of a model without a tokenizer: those of generation_config.json, else of config.json or the GGUF
/// file.
std::vector<int32_t> end_tokens(const files::Checkpoint& checkpoint);
/// The DType of --kv-cache-dtype.
DType kv_dtype(const EngineFlags& flags);
/// The mode of --weights and --quantization; kInvalidArgument where they contradict each other.
Expected<loader::WeightsMode> weights_mode(const EngineFlags& flags);

}  // namespace lockstep::cli
