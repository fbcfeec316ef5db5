// SPDX-License-Identifier: Apache-2.0
#include "files/quantized_tensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "files/mapped_file.h"
#include "files/quantized_rows.h"
#include "files/tensor_values.h"

namespace lockstep::files {
namespace {

using Scheme = QuantizationScheme;

constexpr int64_t kBlock = 32;
constexpr int64_t kMaxExtent = int64_t{1} << 31;

/// Tensors that belong to a quantised weight and to nothing else.
constexpr std::array<std::string_view, 12> kCompanions = {
    ".weight_scale", ".weight_scale_inv", ".weight_zero_point", ".weight_shape", ".weight_g_idx",
    ".input_scale",  ".input_zero_point", ".activation_scale",  ".qzeros",       ".scales",
    ".g_idx",        ".weight_packed"};

std::string_view anchor_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::kPacked:
      return ".weight_packed";
    case Scheme::kGptq:
    case Scheme::kAwq:
      return ".qweight";
    default:
      return ".weight";
  }
}

template <class... Args>
ErrorBuilder fail(StatusCode code, const TensorInfo& tensor, fmt::format_string<Args...> format, Args&&... args) {
  return error(code, "{}: tensor {}: {}", printable(tensor.file, 4096), printable(tensor.name),
               fmt::format(format, std::forward<Args>(args)...));
}

class Maker {
 public:
  Maker(std::vector<TensorInfo> stored, const QuantizationConfig& config)
      : stored_(std::move(stored)), config_(config), used_(stored_.size()) {
    for (size_t i = 0; i < stored_.size(); ++i) index_.emplace(stored_[i].name, i);
  }

  Expected<std::vector<TensorInfo>> run() {
    const std::string_view anchor = anchor_of(config_.scheme);
    for (size_t i = 0; i < stored_.size(); ++i) {
      const TensorInfo& tensor = stored_[i];
      if (!tensor.name.ends_with(anchor)) continue;
      if (config_.scheme == Scheme::kFp8 && tensor.dtype != DType::kF8E4M3) continue;
      if (config_.scheme == Scheme::kInt8 && tensor.dtype != DType::kI8) continue;
      module_ = tensor.name.substr(0, tensor.name.size() - anchor.size());
      used_[i] = true;
      LOCKSTEP_ASSIGN_OR_RETURN(TensorInfo made, make(tensor));
      made_.push_back(std::move(made));
    }
    for (size_t i = 0; i < stored_.size(); ++i) {
      if (used_[i]) continue;
      const std::string_view name = stored_[i].name;
      for (const std::string_view companion : kCompanions) {
        if (!name.ends_with(companion)) continue;
        return fail(StatusCode::kDataLoss, stored_[i], "belongs to no quantised weight ({} needs {}{} for it)",
                    to_string(config_.scheme), printable(name.substr(0, name.size() - companion.size())), anchor);
      }
      made_.push_back(stored_[i]);
    }
    return std::move(made_);
  }

 private:
  Expected<TensorInfo> make(const TensorInfo& weight) {
    if (weight.shape.size() != 2 || weight.shape[0] < 1 || weight.shape[1] < 1 || weight.shape[0] >= kMaxExtent ||
        weight.shape[1] >= kMaxExtent / 8) {
      return fail(StatusCode::kDataLoss, weight, "expected two sizes from 1, found shape {}", shape_text(weight.shape));
    }
    TensorInfo out{.name = module_ + ".weight", .file = weight.file};
    switch (config_.scheme) {
      case Scheme::kFp8:
      case Scheme::kInt8: {
        LOCKSTEP_ASSIGN_OR_RETURN(ByteWeights bytes, byte_weights(weight));
        out.shape = weight.shape;
        const bool fp8 = config_.scheme == Scheme::kFp8;
        out.dtype = fp8 ? DType::kBF16 : config_.int8_activations ? DType::kI8ChannelA8 : DType::kI8Channel;
        out.rows = fp8 ? fp8_rows(std::move(bytes)) : int8_rows(std::move(bytes));
        return out;
      }
      default: {
        LOCKSTEP_ASSIGN_OR_RETURN(CodedWeights codes,
                                  config_.scheme == Scheme::kPacked ? packed_weights(weight) : column_weights(weight));
        LOCKSTEP_RETURN_IF_ERROR(choose_type(weight, codes));
        out.shape = {codes.n, codes.k};
        out.dtype = codes.dtype;
        out.rows = coded_rows(std::move(codes));
        return out;
      }
    }
  }

  /// A tensor of the module, marked as used; nullptr if there is none.
  const TensorInfo* companion(std::string_view suffix) {
    const auto found = index_.find(module_ + std::string(suffix));
    if (found == index_.end()) return nullptr;
    used_[found->second] = true;
    return &stored_[found->second];
  }
  Expected<const TensorInfo*> needed(const TensorInfo& weight, std::string_view suffix) {
    if (const TensorInfo* found = companion(suffix)) return found;
    return error(StatusCode::kDataLoss, "{}: tensor {} needs tensor {}{}, which is missing",
                 printable(weight.file, 4096), printable(weight.name), printable(module_), suffix);
  }
  static Status check(const TensorInfo& tensor, const std::vector<int64_t>& shape, std::optional<DType> dtype) {
    if (tensor.shape != shape) {
      return fail(StatusCode::kDataLoss, tensor, "has shape {}, expected {}", shape_text(tensor.shape),
                  shape_text(shape));
    }
    if (dtype ? tensor.dtype != *dtype : !is_float(tensor.dtype)) {
      return fail(StatusCode::kDataLoss, tensor, "has type {}, expected {}", to_string(tensor.dtype),
                  dtype ? to_string(*dtype) : "f32, f16 or bf16");
    }
    return {};
  }

  Expected<ByteWeights> byte_weights(const TensorInfo& weight) {
    if (const TensorInfo* zeros = companion(".weight_zero_point")) {
      for (const std::byte b : zeros->data) {
        if (b == std::byte{0}) continue;
        return fail(StatusCode::kUnsupported, *zeros, "zero points other than 0 are not supported");
      }
    }
    if (config_.scheme == Scheme::kFp8) {  // scales of activations, which stay as they are here
      for (const char* suffix : {".input_scale", ".activation_scale"}) companion(suffix);
    }
    const TensorInfo* scales = companion(".weight_scale_inv");
    if (scales == nullptr) {
      LOCKSTEP_ASSIGN_OR_RETURN(scales, needed(weight, ".weight_scale"));
    }
    ByteWeights out{.weights = weight.data, .n = weight.shape[0], .k = weight.shape[1]};
    const int64_t count = elements_of(*scales);
    if (!is_float(scales->dtype)) LOCKSTEP_RETURN_IF_ERROR(check(*scales, scales->shape, std::nullopt));
    if (config_.block_rows != 0) {
      out.block_rows = config_.block_rows;
      out.block_columns = config_.block_columns;
      const auto blocks = [](int64_t size, int64_t block) { return (size + block - 1) / block; };
      LOCKSTEP_RETURN_IF_ERROR(
          check(*scales, {blocks(out.n, out.block_rows), blocks(out.k, out.block_columns)}, std::nullopt));
    } else if (count == 1) {
      out.block_rows = out.n;
      out.block_columns = out.k;
    } else if (count == out.n && scales->shape.front() == out.n) {
      out.block_columns = out.k;
    } else {
      return fail(StatusCode::kDataLoss, *scales, "has shape {}, expected one scale or [{}, 1]",
                  shape_text(scales->shape), out.n);
    }
    for (int64_t i = 0; i < count; ++i) out.scales.push_back(float_at(*scales, i));
    return out;
  }

  /// compressed-tensors: words along the inputs, zero points along the outputs.
  Expected<CodedWeights> packed_weights(const TensorInfo& weight) {
    const int64_t per_word = 32 / config_.bits;
    LOCKSTEP_ASSIGN_OR_RETURN(const TensorInfo* shape, needed(weight, ".weight_shape"));
    if (elements_of(*shape) != 2 || (shape->dtype != DType::kI64 && shape->dtype != DType::kI32)) {
      return fail(StatusCode::kDataLoss, *shape, "expected two integers");
    }
    const auto size = [&](int64_t i) {
      return shape->dtype == DType::kI64 ? element<int64_t>(*shape, i) : int64_t{element<int32_t>(*shape, i)};
    };
    CodedWeights out{.scheme = config_.scheme, .bits = config_.bits, .n = size(0), .k = size(1)};
    if (out.n < 1 || out.k < 1 || out.k >= kMaxExtent) {
      return fail(StatusCode::kDataLoss, *shape, "expected two sizes from 1, found [{}, {}]", out.n, out.k);
    }
    LOCKSTEP_RETURN_IF_ERROR(check(weight, {out.n, (out.k + per_word - 1) / per_word}, DType::kI32));
    LOCKSTEP_RETURN_IF_ERROR(set_groups(weight, companion(".weight_g_idx"), out));
    const int64_t groups = out.k / out.group_size;
    LOCKSTEP_ASSIGN_OR_RETURN(const TensorInfo* scales, needed(weight, ".weight_scale"));
    LOCKSTEP_RETURN_IF_ERROR(check(*scales, {out.n, groups}, std::nullopt));
    const TensorInfo* zeros = companion(".weight_zero_point");
    if (zeros != nullptr) {
      LOCKSTEP_RETURN_IF_ERROR(check(*zeros, {(out.n + per_word - 1) / per_word, groups}, DType::kI32));
    }
    for (int64_t row = 0; row < out.n; ++row) {
      for (int64_t group = 0; group < groups; ++group) {
        out.scales.push_back(float_at(*scales, row * groups + group));
        if (zeros == nullptr) continue;
        const auto word = element<uint32_t>(*zeros, row / per_word * groups + group);
        out.zeros.push_back(static_cast<uint8_t>(word >> config_.bits * (row % per_word) & mask()));
      }
    }
    out.words = weight.data;
    return out;
  }

  /// GPTQ: words along the inputs, a column of them for each output. AWQ: words along the outputs.
  Expected<CodedWeights> column_weights(const TensorInfo& weight) {
    const bool gptq = config_.scheme == Scheme::kGptq;
    const int64_t per_word = 32 / config_.bits;
    CodedWeights out{.scheme = config_.scheme, .bits = config_.bits};
    out.k = weight.shape[0] * (gptq ? per_word : 1);
    out.n = weight.shape[1] * (gptq ? 1 : per_word);
    LOCKSTEP_RETURN_IF_ERROR(check(weight, weight.shape, DType::kI32));
    if (out.n % per_word != 0) {
      return fail(StatusCode::kDataLoss, weight, "has {} outputs, expected a multiple of {}", out.n, per_word);
    }
    LOCKSTEP_RETURN_IF_ERROR(set_groups(weight, gptq ? companion(".g_idx") : nullptr, out));
    const int64_t groups = out.k / out.group_size;
    LOCKSTEP_ASSIGN_OR_RETURN(const TensorInfo* scales, needed(weight, ".scales"));
    LOCKSTEP_RETURN_IF_ERROR(check(*scales, {groups, out.n}, std::nullopt));
    LOCKSTEP_ASSIGN_OR_RETURN(const TensorInfo* zeros, needed(weight, ".qzeros"));
    LOCKSTEP_RETURN_IF_ERROR(check(*zeros, {groups, out.n / per_word}, DType::kI32));
    const int64_t words = out.n / per_word;
    for (int64_t row = 0; row < out.n; ++row) {
      const int64_t position = gptq ? row % per_word : awq_position(row % per_word);
      for (int64_t group = 0; group < groups; ++group) {
        out.scales.push_back(float_at(*scales, group * out.n + row));
        const auto word = element<uint32_t>(*zeros, group * words + row / per_word);
        const uint32_t stored = word >> config_.bits * position;
        out.zeros.push_back(static_cast<uint8_t>((stored + (config_.stored_zero_less_one ? 1 : 0)) & mask()));
      }
    }
    out.words = weight.data;
    return out;
  }

  uint32_t mask() const { return (1u << config_.bits) - 1; }

  Status set_groups(const TensorInfo& weight, const TensorInfo* indices, CodedWeights& out) const {
    out.group_size = config_.group_size == 0 ? out.k : config_.group_size;
    const bool one_group_of_bytes = out.group_size == out.k && config_.bits == 8;
    if (out.k % out.group_size != 0 || (out.k % kBlock != 0 && !one_group_of_bytes)) {
      return fail(StatusCode::kUnsupported, weight, "has rows of {} weights, expected a multiple of {}", out.k,
                  config_.group_size == 0 ? kBlock : config_.group_size);
    }
    if (indices == nullptr || indices->data.empty()) return {};
    LOCKSTEP_RETURN_IF_ERROR(check(*indices, {out.k}, DType::kI32));
    for (int64_t i = 0; i < out.k; ++i) {
      const auto group = element<int32_t>(*indices, i);
      if (group == i / out.group_size) continue;
      return fail(StatusCode::kUnsupported, *indices,
                  "input {} is of group {}: inputs out of order (desc_act, actorder) are not supported", i, group);
    }
    return {};
  }

  /// Blocks without a minimum where all zero points are in the middle.
  static Status choose_type(const TensorInfo& weight, CodedWeights& codes) {
    const uint8_t middle = codes.bits == 4 ? 8 : 128;
    const bool symmetric = std::all_of(codes.zeros.begin(), codes.zeros.end(), [&](uint8_t z) { return z == middle; });
    if (codes.bits == 8) {
      if (!symmetric) {
        return fail(StatusCode::kUnsupported, weight,
                    "8-bit weights with zero points other than 128 are not supported");
      }
      codes.dtype = codes.group_size == codes.k ? DType::kI8Channel : DType::kQ8_0;
    } else {
      codes.dtype = symmetric ? DType::kQ4_0 : DType::kQ4_1;
    }
    return {};
  }

  std::vector<TensorInfo> stored_;
  const QuantizationConfig& config_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<bool> used_;
  std::vector<TensorInfo> made_;
  std::string module_;
};

}  // namespace

Expected<std::vector<TensorInfo>> make_quantized_tensors(std::vector<TensorInfo> stored,
                                                         const QuantizationConfig& config) {
  if (config.scheme == Scheme::kNone) return stored;
  return Maker(std::move(stored), config).run();
}

}  // namespace lockstep::files
