// SPDX-License-Identifier: Apache-2.0
#include "files/gguf_parse.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "files/byte_reader.h"
#include "files/ggml_types.h"
#include "files/mapped_file.h"

namespace lockstep::files {
namespace {

constexpr uint32_t kMagic = 0x46554747;    // "GGUF"
constexpr uint64_t kMaxNameBytes = 65535;  // the format's limit for keys
// Over all arrays of a file: 60 times the largest published vocabulary with its merges. Bounds memory, since an array
// of bytes in the file takes eight times as much here.
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 25;
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;             // length, name, type, shortest value
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // length, name, rank, one extent, type, offset

enum ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

class Parser final {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), reader_(bytes), file_(file) {}

  Expected<GgufContents> parse() {
    LOCKSTEP_RETURN_IF_ERROR(read_head());
    for (uint64_t i = 0; i < key_count_; ++i) LOCKSTEP_RETURN_IF_ERROR(read_key(i));
    LOCKSTEP_RETURN_IF_ERROR(read_alignment());
    for (uint64_t i = 0; i < tensor_count_; ++i) LOCKSTEP_RETURN_IF_ERROR(read_tensor(i));
    LOCKSTEP_RETURN_IF_ERROR(place_tensors());
    return std::move(contents_);
  }

 private:
  struct Place {
    uint64_t offset;  ///< from the start of the data section
    uint64_t bytes;
    size_t tensor;
  };

  template <class... Args>
  ErrorBuilder damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return error(StatusCode::kDataLoss, "{}: {}", printable(file_), fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  ErrorBuilder unsupported(fmt::format_string<Args...> format, Args&&... args) const {
    return error(StatusCode::kUnsupported, "{}: {}", printable(file_),
                 fmt::format(format, std::forward<Args>(args)...));
  }
  ErrorBuilder ends_inside(std::string_view what) const {
    return damaged("the file ends inside {} at byte {} (file size {})", what, reader_.position(), bytes_.size());
  }

  Status read_head() {
    const auto magic = reader_.read<uint32_t>();
    if (!magic) return ends_inside("the magic number");
    if (*magic != kMagic) return damaged("expected magic number \"GGUF\", found {:#010x}", *magic);
    const auto version = reader_.read<uint32_t>();
    if (!version) return ends_inside("the version");
    if (*version != 0 && (*version & 0xffffu) == 0) return unsupported("big-endian GGUF files are not supported");
    if (*version != 2 && *version != 3) return unsupported("GGUF version: expected 2 or 3, found {}", *version);
    const auto tensors = reader_.read<uint64_t>();
    const auto keys = reader_.read<uint64_t>();
    if (!tensors || !keys) return ends_inside("the counts");
    const uint64_t rest = reader_.remaining();
    if (*keys > rest / kMinKeyBytes) {
      return damaged("metadata count {} can't fit in the {} bytes that follow", *keys, rest);
    }
    if (*tensors > rest / kMinTensorBytes) {
      return damaged("tensor count {} can't fit in the {} bytes that follow", *tensors, rest);
    }
    tensor_count_ = *tensors;
    key_count_ = *keys;
    return {};
  }

  /// A length and that many bytes.
  Expected<std::string_view> read_string(std::string_view what) {
    const auto length = reader_.read<uint64_t>();
    if (!length) return ends_inside(what);
    const auto text = reader_.read_text(*length);
    if (!text) {
      return damaged("{} at byte {}: length {}, but only {} bytes are left", what, reader_.position(), *length,
                     reader_.remaining());
    }
    return *text;
  }

  Expected<std::string_view> read_name(std::string_view what, uint64_t index) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view name, read_string(fmt::format("the name of {} {}", what, index)));
    if (name.empty() || name.size() > kMaxNameBytes) {
      return damaged("name of {} {}: expected 1..{} bytes, found {}", what, index, kMaxNameBytes, name.size());
    }
    return name;
  }

  Status read_key(uint64_t index) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view key, read_name("metadata key", index));
    if (contents_.metadata.contains(key)) return damaged("metadata key {} occurs twice", printable(key));
    const auto type = reader_.read<uint32_t>();
    if (!type) return ends_inside(fmt::format("the type of {}", printable(key)));
    LOCKSTEP_ASSIGN_OR_RETURN(GgufValue value, *type == kArray ? read_array(key) : read_value(key, *type));
    contents_.metadata.emplace(key, std::move(value));
    return {};
  }

  Expected<GgufValue> read_value(std::string_view key, uint32_t type) {
    switch (type) {
      case kF32:
        return read_as<float, double>(key);
      case kF64:
        return read_as<double, double>(key);
      case kString: {
        LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view text, read_string(printable(key)));
        return GgufValue(std::string(text));
      }
      case kBool:
        return read_as<uint8_t, bool>(key);
      case kU8:
        return read_as<uint8_t, int64_t>(key);
      case kI8:
        return read_as<int8_t, int64_t>(key);
      case kU16:
        return read_as<uint16_t, int64_t>(key);
      case kI16:
        return read_as<int16_t, int64_t>(key);
      case kU32:
        return read_as<uint32_t, int64_t>(key);
      case kI32:
        return read_as<int32_t, int64_t>(key);
      case kU64:
        return read_as<uint64_t, int64_t>(key);
      case kI64:
        return read_as<int64_t, int64_t>(key);
      default:
        return damaged("{}: unknown metadata type {}", printable(key), type);
    }
  }

  /// Converts a stored value. Errors: a bool that is neither 0 nor 1, an integer over 2^63-1.
  template <class Stored, class Kept>
  Expected<Kept> convert(std::string_view key, Stored stored) const {
    if constexpr (std::is_same_v<Kept, bool>) {
      if (stored > 1) return damaged("{}: expected a bool (0 or 1), found {}", printable(key), stored);
      return stored == 1;
    } else if constexpr (std::is_same_v<Stored, uint64_t>) {
      if (stored > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return damaged("{}: integer {} is over 2^63-1", printable(key), stored);
      }
      return static_cast<Kept>(stored);
    } else {
      return static_cast<Kept>(stored);
    }
  }

  template <class Stored, class Kept>
  Expected<GgufValue> read_as(std::string_view key) {
    const auto stored = reader_.read<Stored>();
    if (!stored) return ends_inside(printable(key));
    LOCKSTEP_ASSIGN_OR_RETURN(const Kept kept, (convert<Stored, Kept>(key, *stored)));
    return GgufValue(kept);
  }

  Expected<GgufValue> read_array(std::string_view key) {
    const auto type = reader_.read<uint32_t>();
    const auto length = reader_.read<uint64_t>();
    if (!type || !length) return ends_inside(printable(key));
    if (*length > kMaxArrayElements - array_elements_) {
      return damaged("{}: array of {} elements; a file's arrays may have {} in all", printable(key), *length,
                     kMaxArrayElements);
    }
    array_elements_ += *length;
    switch (*type) {
      case kF32:
        return read_array_of<float, double>(key, *length);
      case kF64:
        return read_array_of<double, double>(key, *length);
      case kString:
        return read_strings(key, *length);
      case kBool:
        return read_array_of<uint8_t, bool>(key, *length);
      case kU8:
        return read_array_of<uint8_t, int64_t>(key, *length);
      case kI8:
        return read_array_of<int8_t, int64_t>(key, *length);
      case kU16:
        return read_array_of<uint16_t, int64_t>(key, *length);
      case kI16:
        return read_array_of<int16_t, int64_t>(key, *length);
      case kU32:
        return read_array_of<uint32_t, int64_t>(key, *length);
      case kI32:
        return read_array_of<int32_t, int64_t>(key, *length);
      case kU64:
        return read_array_of<uint64_t, int64_t>(key, *length);
      case kI64:
        return read_array_of<int64_t, int64_t>(key, *length);
      case kArray:
        return unsupported("{}: arrays of arrays are not supported", printable(key));
      default:
        return damaged("{}: unknown array element type {}", printable(key), *type);
    }
  }

  /// Refuses a length that the rest of the file can't hold, before anything is allocated for it.
  Status check_length(std::string_view key, uint64_t length, uint64_t min_bytes) const {
    if (length <= reader_.remaining() / min_bytes) return {};
    return damaged("{}: array of {} elements can't fit in the {} bytes that are left", printable(key), length,
                   reader_.remaining());
  }

  template <class Stored, class Kept>
  Expected<GgufValue> read_array_of(std::string_view key, uint64_t length) {
    LOCKSTEP_RETURN_IF_ERROR(check_length(key, length, sizeof(Stored)));
    std::vector<Kept> values;
    values.reserve(length);
    for (uint64_t i = 0; i < length; ++i) {
      const auto stored = reader_.read<Stored>();
      if (!stored) return ends_inside(printable(key));
      LOCKSTEP_ASSIGN_OR_RETURN(const Kept kept, (convert<Stored, Kept>(key, *stored)));
      values.push_back(kept);
    }
    return GgufValue(std::move(values));
  }

  Expected<GgufValue> read_strings(std::string_view key, uint64_t length) {
    LOCKSTEP_RETURN_IF_ERROR(check_length(key, length, sizeof(uint64_t)));
    std::vector<std::string> values;
    values.reserve(length);
    for (uint64_t i = 0; i < length; ++i) {
      // The name of the key is formatted only for an error: vocabularies have 10^5 strings.
      const auto size = reader_.read<uint64_t>();
      const auto text = size ? reader_.read_text(*size) : std::nullopt;
      if (!text) {
        return damaged("{}: string {} of {} ends after the end of the file (at byte {})", printable(key), i, length,
                       reader_.position());
      }
      values.emplace_back(*text);
    }
    return GgufValue(std::move(values));
  }

  Status read_alignment() {
    const auto found = contents_.metadata.find("general.alignment");
    if (found == contents_.metadata.end()) return {};
    const auto* value = std::get_if<int64_t>(&found->second);
    if (value == nullptr) return damaged("general.alignment: expected an integer");
    if (*value < 1 || *value > (int64_t{1} << 30) || !std::has_single_bit(static_cast<uint64_t>(*value))) {
      return damaged("general.alignment: expected a power of two in 1..2^30, found {}", *value);
    }
    alignment_ = static_cast<uint64_t>(*value);
    return {};
  }

  Status read_tensor(uint64_t index) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view name, read_name("tensor", index));
    const std::string shown = "tensor " + printable(name);
    if (!names_.insert(name).second) return damaged("{} occurs twice", shown);
    const auto rank = reader_.read<uint32_t>();
    if (!rank) return ends_inside(shown);
    if (*rank < 1 || *rank > 4) return damaged("{}: expected 1..4 dimensions, found {}", shown, *rank);
    std::vector<int64_t> shape;
    int64_t elements = 1;
    for (uint32_t d = 0; d < *rank; ++d) {
      const auto extent = reader_.read<uint64_t>();
      if (!extent) return ends_inside(shown);
      const auto signed_extent = static_cast<int64_t>(*extent);
      if (signed_extent < 1) return damaged("{}: dimension {} is {}, expected 1..2^63-1", shown, d, *extent);
      if (__builtin_mul_overflow(elements, signed_extent, &elements)) {
        return damaged("{}: its shape has more than 2^63-1 elements", shown);
      }
      shape.push_back(signed_extent);
    }
    const auto type = reader_.read<uint32_t>();
    const auto offset = reader_.read<uint64_t>();
    if (!type || !offset) return ends_inside(shown);
    return add_tensor(name, *type, std::move(shape), elements, *offset);
  }

  /// `shape` in file order: the fastest dimension first.
  Status add_tensor(std::string_view name, uint32_t type, std::vector<int64_t> shape, int64_t elements,
                    uint64_t offset) {
    const auto dtype = dtype_of_ggml_type(type);
    if (!dtype) return unsupported("tensor {}: {} is not supported", printable(name), ggml_type_text(type));
    const int64_t block = dtype_info(*dtype).block_elements;
    if (shape.front() % block != 0) {
      return damaged("tensor {}: rows of {} elements, expected a multiple of {} for {}", printable(name), shape.front(),
                     block, to_string(*dtype));
    }
    const auto bytes = dtype_bytes(*dtype, elements);
    if (!bytes) return damaged("tensor {}: its {} elements take more than 2^63-1 bytes", printable(name), elements);
    if (offset % alignment_ != 0) {
      return damaged("tensor {}: offset {} is no multiple of the alignment {}", printable(name), offset, alignment_);
    }
    std::reverse(shape.begin(), shape.end());
    places_.push_back({offset, static_cast<uint64_t>(*bytes), contents_.tensors.size()});
    contents_.tensors.push_back({std::string(name), *dtype, std::move(shape), {}});
    return {};
  }

  /// Points every tensor into the data section; checks ranges and overlaps.
  Status place_tensors() {
    const uint64_t header_end = reader_.position();
    const uint64_t padding = (alignment_ - header_end % alignment_) % alignment_;
    // A file without tensors (a vocabulary only) may end before the padding does.
    const uint64_t data_size = padding < reader_.remaining() ? reader_.remaining() - padding : 0;
    for (const Place& place : places_) {
      GgufTensor& tensor = contents_.tensors[place.tensor];
      if (place.offset > data_size || place.bytes > data_size - place.offset) {
        return damaged(
            "tensor {}: expected {} bytes at offset {} of the data, but the data has only {} bytes "
            "(truncated file?)",
            printable(tensor.name), place.bytes, place.offset, data_size);
      }
      tensor.data = bytes_.subspan(header_end + padding + place.offset, place.bytes);
    }
    std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) { return a.offset < b.offset; });
    for (size_t i = 1; i < places_.size(); ++i) {
      const Place& before = places_[i - 1];
      if (before.offset + before.bytes > places_[i].offset) {
        return damaged("tensors {} and {} overlap", printable(contents_.tensors[before.tensor].name),
                       printable(contents_.tensors[places_[i].tensor].name));
      }
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  const std::string& file_;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t array_elements_ = 0;
  uint64_t alignment_ = 32;  // the format's default
  std::set<std::string_view> names_;
  std::vector<Place> places_;
  GgufContents contents_;
};

}  // namespace

Expected<GgufContents> parse_gguf(std::span<const std::byte> bytes, const std::string& file) {
  return Parser(bytes, file).parse();
}

}  // namespace lockstep::files
