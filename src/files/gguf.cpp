// SPDX-License-Identifier: Apache-2.0
#include "files/gguf.h"

#include <fstream>
#include <system_error>
#include <unordered_map>

#include "files/gguf_parse.h"
#include "files/mapped_file.h"

namespace lockstep::files {

struct GgufFile::Impl {
  std::shared_ptr<const MappedFile> file;
  GgufContents contents;
  std::unordered_map<std::string_view, size_t> tensor_index;  ///< keys point into contents.tensors
};

namespace {

template <class T>
const T* get(const GgufValue* value) {
  return value == nullptr ? nullptr : std::get_if<T>(value);
}

template <class T>
std::optional<T> get_copy(const GgufValue* value) {
  const T* found = get<T>(value);
  return found == nullptr ? std::nullopt : std::optional<T>(*found);
}

}  // namespace

GgufFile::GgufFile() : impl_(std::make_unique<Impl>()) {}
GgufFile::~GgufFile() = default;

Expected<std::shared_ptr<const GgufFile>> GgufFile::open(const std::filesystem::path& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto mapped, MappedFile::open(path));
  LOCKSTEP_ASSIGN_OR_RETURN(GgufContents contents, parse_gguf(mapped->bytes(), mapped->path()));
  std::shared_ptr<GgufFile> file(new GgufFile());
  Impl& impl = *file->impl_;
  impl.file = std::move(mapped);
  impl.contents = std::move(contents);
  for (size_t i = 0; i < impl.contents.tensors.size(); ++i) impl.tensor_index.emplace(impl.contents.tensors[i].name, i);
  return std::shared_ptr<const GgufFile>(std::move(file));
}

const std::string& GgufFile::path() const { return impl_->file->path(); }

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = impl_->contents.metadata.find(key);
  return found == impl_->contents.metadata.end() ? nullptr : &found->second;
}

std::optional<std::string> GgufFile::find_string(std::string_view key) const {
  return get_copy<std::string>(find(key));
}
std::optional<int64_t> GgufFile::find_int(std::string_view key) const { return get_copy<int64_t>(find(key)); }
std::optional<double> GgufFile::find_float(std::string_view key) const {
  const GgufValue* value = find(key);
  if (const auto* integer = get<int64_t>(value)) return static_cast<double>(*integer);
  return get_copy<double>(value);
}
std::optional<bool> GgufFile::find_bool(std::string_view key) const { return get_copy<bool>(find(key)); }
const std::vector<std::string>* GgufFile::find_strings(std::string_view key) const {
  return get<std::vector<std::string>>(find(key));
}
const std::vector<int64_t>* GgufFile::find_ints(std::string_view key) const {
  return get<std::vector<int64_t>>(find(key));
}
const std::vector<double>* GgufFile::find_floats(std::string_view key) const {
  return get<std::vector<double>>(find(key));
}

const std::vector<GgufTensor>& GgufFile::tensors() const { return impl_->contents.tensors; }

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = impl_->tensor_index.find(name);
  return found == impl_->tensor_index.end() ? nullptr : &impl_->contents.tensors[found->second];
}

bool is_gguf(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  return file.read(magic, sizeof magic) && std::string_view(magic, 4) == "GGUF";
}

}  // namespace lockstep::files
