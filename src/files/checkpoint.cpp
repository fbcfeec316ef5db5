// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint.h"

#include <algorithm>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "files/config_check.h"
#include "files/gguf_names.h"
#include "files/mapped_file.h"
#include "files/quantized_tensors.h"
#include "files/safetensors.h"

namespace lockstep::files {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

class LoadedCheckpoint final : public Checkpoint {
 public:
  explicit LoadedCheckpoint(const fs::path& path) : path_(path.string()) {}

  const ModelConfig& config() const override { return config_; }
  const GenerationConfig& generation_config() const override { return generation_config_; }
  const std::string& path() const override { return path_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }
  std::shared_ptr<const GgufFile> gguf() const override { return parts_.empty() ? nullptr : parts_.front(); }
  void release(const TensorInfo& tensor) const override {
    return tensor.rows ? tensor.rows->release() : release_pages(tensor.data);
  }

  Status load_directory(const fs::path& directory);
  Status load_gguf(const fs::path& file);

 private:
  Status load_shards(const fs::path& directory);
  Expected<std::vector<std::shared_ptr<const GgufFile>>> open_parts(std::shared_ptr<const GgufFile> first,
                                                                    const fs::path& file) const;
  Status add_file(const fs::path& file);
  Status add_part(const GgufFile& part);
  void add_base_model_prefix();
  Status build_index();

  std::string path_;
  ModelConfig config_;
  GenerationConfig generation_config_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> index_;  ///< keys point into tensors_
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<std::shared_ptr<const GgufFile>> parts_;
};

bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code);
}

/// A file of the folder whose name ends so; empty if there is none.
std::string find_by_suffix(const fs::path& directory, std::string_view suffix) {
  std::error_code code;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, code), end; !code && it != end; it.increment(code)) {
    std::string name = it->path().filename().string();
    if (name.ends_with(suffix)) names.push_back(std::move(name));
  }
  return names.empty() ? std::string() : *std::min_element(names.begin(), names.end());
}

Status no_config(const fs::path& directory) {
  const std::string shown = printable(directory.string(), 4096);
  if (const std::string gguf = find_by_suffix(directory, ".gguf"); !gguf.empty()) {
    return error(StatusCode::kNotFound, "{}: no config.json; to use the GGUF file give its own path: {}", shown,
                 printable((directory / gguf).string(), 4096));
  }
  return error(StatusCode::kNotFound,
               "{}: no config.json; expected a Hugging Face model folder (config.json, model.safetensors, "
               "tokenizer.json) or a .gguf file",
               shown);
}

Status no_weights(const fs::path& directory) {
  const std::string shown = printable(directory.string(), 4096);
  for (const char* suffix : {".bin", ".pth", ".pt"}) {
    const std::string found = find_by_suffix(directory, suffix);
    if (found.empty()) continue;
    return error(StatusCode::kUnsupported,
                 "{}: weights in PyTorch's pickle format ({}) are not read: such files can run code. Convert them: "
                 "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW_DIR) writes safetensors",
                 shown, printable(found));
  }
  return error(StatusCode::kNotFound, "{}: neither {} nor {} is there", shown, kSingleName, kIndexName);
}

Status LoadedCheckpoint::load_directory(const fs::path& directory) {
  if (!is_there(directory / "config.json")) return no_config(directory);
  LOCKSTEP_ASSIGN_OR_RETURN(config_, load_model_config(directory / "config.json"));
  LOCKSTEP_ASSIGN_OR_RETURN(generation_config_, load_generation_config(directory / "generation_config.json"));
  if (is_there(directory / kSingleName)) {
    LOCKSTEP_RETURN_IF_ERROR(add_file(directory / kSingleName));
  } else if (is_there(directory / kIndexName)) {
    LOCKSTEP_RETURN_IF_ERROR(load_shards(directory));
  } else {
    return no_weights(directory);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(tensors_, make_quantized_tensors(std::move(tensors_), config_.quantization));
  add_base_model_prefix();
  return build_index();
}

Status LoadedCheckpoint::add_file(const fs::path& file) {
  LOCKSTEP_ASSIGN_OR_RETURN(SafetensorsFile opened, open_safetensors(file));
  for (SafetensorsTensor& tensor : opened.tensors) {
    tensors_.push_back({std::move(tensor.name), opened.file->path(), tensor.dtype, std::move(tensor.shape), tensor.data,
                        /*interleaved_heads=*/0, /*rows=*/nullptr});
  }
  files_.push_back(std::move(opened.file));
  return {};
}

Status LoadedCheckpoint::load_shards(const fs::path& directory) {
  const fs::path index_path = directory / kIndexName;
  const std::string shown = printable(index_path.string(), 4096);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto weight_map, load_safetensors_index(index_path));
  std::vector<std::string> shards;
  shards.reserve(weight_map.size());
  for (const auto& [tensor, shard] : weight_map) shards.push_back(shard);
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  std::map<std::string, std::string> found;  // tensor -> shard
  for (const std::string& shard : shards) {
    if (!is_there(directory / shard)) {
      return error(StatusCode::kNotFound, "{}: shard {} is missing", shown, printable(shard));
    }
    const size_t first = tensors_.size();
    LOCKSTEP_RETURN_IF_ERROR(add_file(directory / shard));
    for (size_t i = first; i < tensors_.size(); ++i) {
      const auto [entry, is_new] = found.emplace(tensors_[i].name, shard);
      if (!is_new) {
        return error(StatusCode::kDataLoss, "{}: tensor {} is in two shards, {} and {}", shown,
                     printable(tensors_[i].name), printable(entry->second), printable(shard));
      }
    }
  }
  for (const auto& [tensor, shard] : weight_map) {
    const auto entry = found.find(tensor);
    if (entry != found.end() && entry->second == shard) continue;
    return error(StatusCode::kDataLoss, "{}: tensor {}: expected in shard {}, found {}", shown, printable(tensor),
                 printable(shard), entry == found.end() ? "in none" : "in " + printable(entry->second));
  }
  return {};
}

/// A folder saved from the base model without its head (Qwen3-Embedding) lacks "model." in front of every name.
void LoadedCheckpoint::add_base_model_prefix() {
  const auto has = [&](std::string_view name) {
    return std::any_of(tensors_.begin(), tensors_.end(), [&](const TensorInfo& t) { return t.name == name; });
  };
  if (!has("embed_tokens.weight") || has("model.embed_tokens.weight")) return;
  for (TensorInfo& tensor : tensors_) {
    if (tensor.name != "lm_head.weight") tensor.name.insert(0, "model.");
  }
}

Status LoadedCheckpoint::load_gguf(const fs::path& file) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto first, GgufFile::open(file));
  LOCKSTEP_ASSIGN_OR_RETURN(parts_, open_parts(std::move(first), file));
  std::vector<const GgufFile*> parts;
  parts.reserve(parts_.size());
  for (const auto& part : parts_) parts.push_back(part.get());
  LOCKSTEP_ASSIGN_OR_RETURN(config_, model_config_from_parts(parts));
  for (const auto& part : parts_) LOCKSTEP_RETURN_IF_ERROR(add_part(*part));
  return build_index();
}

/// split.count, split.no and split.tensors.count of llama.cpp's gguf-split; the parts lie side by side as
/// NAME-00001-of-00003.gguf.
Expected<std::vector<std::shared_ptr<const GgufFile>>> LoadedCheckpoint::open_parts(
    std::shared_ptr<const GgufFile> first, const fs::path& file) const {
  std::vector<std::shared_ptr<const GgufFile>> parts = {std::move(first)};
  const int64_t count = parts.front()->find_int("split.count").value_or(1);
  if (count <= 1) return parts;
  const std::string shown = printable(path_, 4096);
  constexpr int64_t kMaxParts = 99999;  // five digits
  const std::string name = file.filename().string();
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  if (count > kMaxParts || parts.front()->find_int("split.no").value_or(-1) != 0 || !name.ends_with(ending)) {
    return invalid_argument("{}: one of {} parts; give the first one, named ...{}", shown, count, ending);
  }
  const std::string stem = name.substr(0, name.size() - ending.size());
  size_t tensors = parts.front()->tensors().size();
  for (int64_t i = 1; i < count; ++i) {
    const fs::path path = file.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", stem, i + 1, count);
    LOCKSTEP_ASSIGN_OR_RETURN(auto part, GgufFile::open(path));
    if (part->find_int("split.no") != i || part->find_int("split.count") != count) {
      return error(StatusCode::kDataLoss, "{}: expected split.no {} and split.count {}, found {} and {}",
                   printable(path.string(), 4096), i, count, part->find_int("split.no").value_or(-1),
                   part->find_int("split.count").value_or(-1));
    }
    tensors += part->tensors().size();
    parts.push_back(std::move(part));
  }
  const auto expected = parts.front()->find_int("split.tensors.count");
  if (expected && static_cast<uint64_t>(*expected) != tensors) {
    return error(StatusCode::kDataLoss, "{}: split.tensors.count: expected {}, found {} tensors in {} parts", shown,
                 *expected, tensors, count);
  }
  return parts;
}

Status LoadedCheckpoint::add_part(const GgufFile& part) {
  for (const GgufTensor& tensor : part.tensors()) {
    LOCKSTEP_ASSIGN_OR_RETURN(GgufName name, map_gguf_name(tensor.name, config_, part.path()));
    if (name.interleaved_heads != 0 && tensor.shape[0] != name.interleaved_heads * config_.head_dim) {
      return error(StatusCode::kDataLoss, "{}: tensor {}: expected {} heads of {} rows, found {} rows",
                   printable(part.path(), 4096), printable(tensor.name), name.interleaved_heads, config_.head_dim,
                   tensor.shape[0]);
    }
    tensors_.push_back({std::move(name.name), part.path(), tensor.dtype, tensor.shape, tensor.data,
                        name.interleaved_heads,
                        /*rows=*/nullptr});
  }
  return {};
}

Status LoadedCheckpoint::build_index() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto [entry, is_new] = index_.emplace(tensors_[i].name, i);
    if (!is_new) {
      return error(StatusCode::kDataLoss, "{}: tensor {} occurs twice, in {} and {}", printable(path_, 4096),
                   printable(tensors_[i].name), printable(tensors_[entry->second].file, 4096),
                   printable(tensors_[i].file, 4096));
    }
  }
  return {};
}

/// The folder of a .safetensors file, which must be part of the model there.
Status load_folder_of(LoadedCheckpoint& checkpoint, const fs::path& file) {
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  LOCKSTEP_RETURN_IF_ERROR(checkpoint.load_directory(directory));
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (fs::path(tensor.file).filename() == file.filename()) return {};
  }
  return invalid_argument("{}: not part of the model in its folder", printable(file.string(), 4096));
}

}  // namespace

Expected<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::filesystem::path& path) {
  const std::string shown = printable(path.string(), 4096);
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (status.type() == fs::file_type::not_found || path.empty()) {
    return error(StatusCode::kNotFound, "{}: no such file or folder; expected a local model folder or a .gguf file",
                 shown);
  }
  auto checkpoint = std::make_shared<LoadedCheckpoint>(path);
  if (fs::is_directory(status)) {
    LOCKSTEP_RETURN_IF_ERROR(checkpoint->load_directory(path));
  } else if (is_gguf(path) || path.extension() == ".gguf") {
    LOCKSTEP_RETURN_IF_ERROR(checkpoint->load_gguf(path));
  } else if (path.extension() == ".safetensors") {
    LOCKSTEP_RETURN_IF_ERROR(load_folder_of(*checkpoint, path));
  } else {
    return invalid_argument("{}: expected a model folder, a .gguf file or a .safetensors file", shown);
  }
  return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
}

}  // namespace lockstep::files
