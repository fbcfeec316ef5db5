// SPDX-License-Identifier: Apache-2.0
#include "files/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "files/byte_reader.h"
#include "files/strict_json.h"

namespace lockstep::files {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr size_t kMaxIndexBytes = 100'000'000;
constexpr size_t kMaxRank = 8;

struct NamedDType {
  std::string_view name;
  std::optional<DType> dtype;  ///< nullopt: in the format, not read here
};
constexpr std::array<NamedDType, 20> kDTypes = {
    {{"F32", DType::kF32},      {"F16", DType::kF16},      {"BF16", DType::kBF16},    {"I8", DType::kI8},
     {"U8", DType::kU8},        {"I32", DType::kI32},      {"I64", DType::kI64},      {"F8_E4M3", DType::kF8E4M3},
     {"BOOL", DType::kBool},    {"F64", std::nullopt},     {"U16", std::nullopt},     {"I16", std::nullopt},
     {"U32", std::nullopt},     {"U64", std::nullopt},     {"F8_E5M2", std::nullopt}, {"F8_E8M0", std::nullopt},
     {"F6_E2M3", std::nullopt}, {"F6_E3M2", std::nullopt}, {"F4", std::nullopt},      {"C64", std::nullopt}}};

struct Entry {
  SafetensorsTensor tensor;
  uint64_t begin;
  uint64_t end;
};

class Parser final {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  Expected<std::vector<SafetensorsTensor>> parse() {
    LOCKSTEP_ASSIGN_OR_RETURN(const json header, read_header());
    for (const auto& [name, value] : header.items()) {
      LOCKSTEP_RETURN_IF_ERROR(name == "__metadata__" ? check_metadata(value) : read_entry(name, value));
    }
    return place();
  }

 private:
  template <class... Args>
  ErrorBuilder damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return error(StatusCode::kDataLoss, "{}: {}", printable(file_), fmt::format(format, std::forward<Args>(args)...));
  }

  Expected<json> read_header() {
    ByteReader reader(bytes_);
    const auto length = reader.read<uint64_t>();
    if (!length) return damaged("expected an 8-byte header length, found a file of {} bytes", bytes_.size());
    if (*length > kMaxHeaderBytes) {
      return damaged("header length: expected at most {} bytes, found {}", kMaxHeaderBytes, *length);
    }
    const auto text = reader.read_text(*length);
    if (!text) return damaged("header length {}, but only {} bytes follow", *length, reader.remaining());
    if (text->empty() || text->front() != '{') return damaged("the header is not a JSON object");
    data_ = bytes_.subspan(reader.position());
    return parse_json(*text, file_);
  }

  Status check_metadata(const json& value) const {
    if (!value.is_object()) return damaged("__metadata__: expected an object, found {}", kind_of(value));
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        return damaged("__metadata__.{}: expected a string, found {}", printable(key), kind_of(text));
      }
    }
    return {};
  }

  Status read_entry(const std::string& name, const json& value) {
    const std::string shown = "tensor " + printable(name);
    if (name.empty()) return damaged("a tensor has an empty name");
    if (!value.is_object()) return damaged("{}: expected an object, found {}", shown, kind_of(value));
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!value.contains(field)) return damaged("{}: {} is missing", shown, field);
    }
    if (value.size() != 3) return damaged("{}: expected dtype, shape and data_offsets, found other fields too", shown);
    LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, read_dtype(shown, value["dtype"]));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, read_sizes(shown, "shape", value["shape"], kMaxRank));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets,
                              read_sizes(shown, "data_offsets", value["data_offsets"], 2));
    if (offsets.size() != 2) return damaged("{}: data_offsets: expected 2 numbers, found {}", shown, offsets.size());
    LOCKSTEP_RETURN_IF_ERROR(check_range(shown, dtype, shape, offsets[0], offsets[1]));
    const auto begin = static_cast<uint64_t>(offsets[0]);
    const auto end = static_cast<uint64_t>(offsets[1]);
    entries_.push_back({{name, dtype, shape, data_.subspan(begin, end - begin)}, begin, end});
    return {};
  }

  Expected<DType> read_dtype(const std::string& shown, const json& value) const {
    if (!value.is_string()) return damaged("{}: dtype: expected a string, found {}", shown, kind_of(value));
    const auto& text = value.get_ref<const std::string&>();
    for (const NamedDType& known : kDTypes) {
      if (known.name != text) continue;
      if (known.dtype) return *known.dtype;
      return error(StatusCode::kUnsupported, "{}: {}: dtype {} is not supported", printable(file_), shown, text);
    }
    return damaged("{}: unknown dtype \"{}\"", shown, printable(text, 40));
  }

  Expected<std::vector<int64_t>> read_sizes(const std::string& shown, std::string_view field, const json& value,
                                            size_t max_count) const {
    if (!value.is_array()) return damaged("{}: {}: expected a list, found {}", shown, field, kind_of(value));
    if (value.size() > max_count) {
      return damaged("{}: {}: expected at most {} numbers, found {}", shown, field, max_count, value.size());
    }
    std::vector<int64_t> sizes;
    for (const json& item : value) {
      if (!item.is_number_unsigned()) {
        return damaged("{}: {}: expected integers from 0, found {}", shown, field, kind_of(item));
      }
      const auto size = item.get<uint64_t>();
      if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return damaged("{}: {}: {} is over 2^63-1", shown, field, size);
      }
      sizes.push_back(static_cast<int64_t>(size));
    }
    return sizes;
  }

  Status check_range(const std::string& shown, DType dtype, const std::vector<int64_t>& shape, int64_t begin,
                     int64_t end) const {
    if (begin > end) return damaged("{}: data_offsets: the end {} is before the begin {}", shown, end, begin);
    if (static_cast<uint64_t>(end) > data_.size()) {
      return damaged("{}: data_offsets end at {}, but the file has only {} bytes of data (truncated file?)", shown, end,
                     data_.size());
    }
    int64_t elements = 1;
    for (const int64_t extent : shape) {
      if (__builtin_mul_overflow(elements, extent, &elements)) {
        return damaged("{}: shape [{}] has more than 2^63-1 elements", shown, fmt::join(shape, ", "));
      }
    }
    const auto expected = dtype_bytes(dtype, elements);
    if (!expected || *expected != end - begin) {
      return damaged("{}: shape [{}] of {}: expected {} bytes, found data_offsets [{}, {}] with {} bytes", shown,
                     fmt::join(shape, ", "), to_string(dtype),
                     expected ? std::to_string(*expected) : "more than 2^63-1", begin, end, end - begin);
    }
    return {};
  }

  /// Orders by data and checks that the tensors tile it.
  Expected<std::vector<SafetensorsTensor>> place() {
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::vector<SafetensorsTensor> tensors;
    tensors.reserve(entries_.size());
    uint64_t at = 0;
    for (Entry& entry : entries_) {
      const std::string shown = printable(entry.tensor.name);
      if (entry.begin < at) {
        return damaged("tensor {}: its data begins at {}, inside that of tensor {}, which ends at {}", shown,
                       entry.begin, printable(tensors.back().name), at);
      }
      if (entry.begin > at)
        return damaged("tensor {}: {} bytes before its data belong to no tensor", shown, entry.begin - at);
      at = entry.end;
      tensors.push_back(std::move(entry.tensor));
    }
    if (at != data_.size()) {
      return damaged("expected {} bytes of data, found {} (trailing bytes)", at, data_.size());
    }
    return tensors;
  }

  std::span<const std::byte> bytes_;
  std::span<const std::byte> data_;
  const std::string& file_;
  std::vector<Entry> entries_;
};

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos && name != "." &&
         name != "..";
}

}  // namespace

Expected<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  return Parser(bytes, file).parse();
}

Expected<SafetensorsFile> open_safetensors(const std::filesystem::path& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  LOCKSTEP_ASSIGN_OR_RETURN(auto tensors, parse_safetensors(file->bytes(), file->path()));
  return SafetensorsFile{std::move(file), std::move(tensors)};
}

Expected<std::map<std::string, std::string>> load_safetensors_index(const std::filesystem::path& path) {
  const std::string source = printable(path.string());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMaxIndexBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(const json index, parse_json(text, source));
  const auto found = index.is_object() ? index.find("weight_map") : index.end();
  if (found == index.end() || !found->is_object() || found->empty()) {
    return error(StatusCode::kDataLoss, "{}: weight_map: expected an object with tensor names, found {}", source,
                 found == index.end() ? "none" : kind_of(*found));
  }
  std::map<std::string, std::string> weight_map;
  for (const auto& [name, file] : found->items()) {
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
      return error(StatusCode::kDataLoss,
                   "{}: weight_map: tensor {}: expected the name of a file in the same folder, found {}", source,
                   printable(name),
                   file.is_string() ? printable(file.get_ref<const std::string&>()) : std::string(kind_of(file)));
    }
    weight_map.emplace(name, file.get<std::string>());
  }
  return weight_map;
}

}  // namespace lockstep::files
