// SPDX-License-Identifier: Apache-2.0
#include "files/compressed_tensors.h"

#include <string>
#include <utility>

#include "files/mapped_file.h"

namespace lockstep::files {
namespace {

using nlohmann::json;

/// One of config_groups' weights or input_activations.
struct Arguments {
  int64_t bits = 0;
  std::string type;      ///< int, float
  std::string strategy;  ///< tensor, channel, group, block, token
  bool symmetric = true;
  bool dynamic = false;
  std::optional<int64_t> group_size;
};

Expected<Arguments> read_arguments(const JsonFields& fields) {
  Arguments out;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto bits, fields.integer("num_bits"));
  out.bits = bits.value_or(8);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto type, fields.string("type"));
  out.type = type.value_or("int");
  LOCKSTEP_ASSIGN_OR_RETURN(const auto strategy, fields.string("strategy"));
  LOCKSTEP_ASSIGN_OR_RETURN(out.group_size, fields.integer("group_size"));
  out.strategy = strategy.value_or(!out.group_size ? "tensor" : *out.group_size == -1 ? "channel" : "group");
  LOCKSTEP_ASSIGN_OR_RETURN(const auto symmetric, fields.boolean("symmetric"));
  out.symmetric = symmetric.value_or(true);
  const json* dynamic = fields.find("dynamic");
  out.dynamic = dynamic != nullptr && *dynamic != json(false);  // or "local"
  return out;
}

Expected<JsonFields> only_group(const JsonFields& fields) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto groups, fields.object("config_groups"));
  const json* found = fields.find("config_groups");
  if (!groups || found->size() != 1) {
    return fields.fail(StatusCode::kUnsupported, "config_groups", "expected one group of modules, found {}",
                       groups ? found->size() : 0);
  }
  const json& group = *found->begin();
  if (!group.is_object())
    return fields.fail(StatusCode::kDataLoss, "config_groups", "expected a group to be an object");
  return JsonFields(group, fields.source(), "quantization_config.config_groups.");
}

Status refuse_rest(const JsonFields& fields) {
  if (fields.find("kv_cache_scheme") != nullptr) {
    return fields.fail(StatusCode::kUnsupported, "kv_cache_scheme", "a quantised KV cache is not supported");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto status, fields.string("quantization_status"));
  if (status && *status != "compressed") {
    return fields.fail(StatusCode::kUnsupported, "quantization_status", "expected compressed, found \"{}\"",
                       printable(*status, 60));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto sparsity, fields.object("sparsity_config"));
  if (sparsity) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto format, sparsity->string("format"));
    if (format && *format != "dense") {
      return fields.fail(StatusCode::kUnsupported, "sparsity_config", "sparse weights are not supported, found \"{}\"",
                         printable(*format, 60));
    }
  }
  return {};
}

Expected<QuantizationConfig> int8_scheme(const JsonFields& group, const Arguments& weights,
                                         const std::optional<Arguments>& activations) {
  if (weights.bits != 8 || !weights.symmetric || (weights.strategy != "channel" && weights.strategy != "tensor")) {
    return group.fail(
        StatusCode::kUnsupported, "weights",
        "int weights stored as int8 are supported with 8 bits, symmetric, per channel or tensor; found {} "
        "bits, {}symmetric, per {}",
        weights.bits, weights.symmetric ? "" : "not ", printable(weights.strategy, 60));
  }
  QuantizationConfig out{.scheme = QuantizationScheme::kInt8};
  if (!activations) return out;
  const Arguments& in = *activations;
  if (in.bits != 8 || in.type != "int" || !in.symmetric || !in.dynamic || in.strategy != "token") {
    return group.fail(StatusCode::kUnsupported, "input_activations",
                      "only dynamic symmetric int8 per token is supported, found {}{} {}{} per {}",
                      in.dynamic ? "dynamic " : "static ", in.symmetric ? "symmetric" : "asymmetric",
                      printable(in.type, 60), in.bits, printable(in.strategy, 60));
  }
  out.int8_activations = true;
  return out;
}

Expected<QuantizationConfig> packed_scheme(const JsonFields& group, const Arguments& weights, bool has_activations) {
  const bool eight = weights.bits == 8;
  if (weights.type != "int" || (weights.bits != 4 && !eight) || (eight && !weights.symmetric) ||
      (weights.strategy != "group" && weights.strategy != "channel")) {
    return group.fail(StatusCode::kUnsupported, "weights",
                      "packed weights are supported as int with 4 bits, or 8 symmetric bits, per group or channel; "
                      "found {} with {} {}symmetric bits per {}",
                      printable(weights.type, 60), weights.bits, weights.symmetric ? "" : "not ",
                      printable(weights.strategy, 60));
  }
  if (has_activations) {
    return group.fail(StatusCode::kUnsupported, "input_activations",
                      "quantised activations beside packed weights are not supported");
  }
  QuantizationConfig out{.scheme = QuantizationScheme::kPacked, .bits = weights.bits};
  if (weights.strategy == "group") {
    LOCKSTEP_ASSIGN_OR_RETURN(out.group_size, checked_group_size(group, "weights.group_size", weights.group_size));
  }
  return out;
}

}  // namespace

Expected<QuantizationConfig> read_compressed_tensors(const JsonFields& fields) {
  LOCKSTEP_RETURN_IF_ERROR(refuse_rest(fields));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonFields group, only_group(fields));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto weight_fields, group.object("weights"));
  if (!weight_fields) return group.fail(StatusCode::kDataLoss, "weights", "expected an object, found none");
  LOCKSTEP_ASSIGN_OR_RETURN(const Arguments weights, read_arguments(*weight_fields));
  std::optional<Arguments> activations;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto activation_fields, group.object("input_activations"));
  if (activation_fields) {
    LOCKSTEP_ASSIGN_OR_RETURN(activations, read_arguments(*activation_fields));
  }
  if (group.find("output_activations") != nullptr) {
    return group.fail(StatusCode::kUnsupported, "output_activations", "quantised outputs are not supported");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto own_format, group.string("format"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto global_format, fields.string("format"));
  const std::string format = own_format ? *own_format : global_format.value_or("none");
  const bool plain = format == "naive-quantized";
  if (format == "pack-quantized") return packed_scheme(group, weights, activations.has_value());
  if ((plain || format == "int-quantized") && weights.type == "int") return int8_scheme(group, weights, activations);
  if ((plain || format == "float-quantized") && weights.type == "float" && weights.bits == 8) {
    QuantizationConfig out{.scheme = QuantizationScheme::kFp8};
    LOCKSTEP_ASSIGN_OR_RETURN(const auto block, weight_fields->numbers("block_structure"));
    if (block && block->size() == 2 && block->front() >= 1 && block->back() >= 1 && block->front() <= 1 << 20 &&
        block->back() <= 1 << 20) {
      out.block_rows = static_cast<int64_t>(block->front());
      out.block_columns = static_cast<int64_t>(block->back());
    }
    return out;
  }
  return fields.fail(StatusCode::kUnsupported, "format",
                     "int-quantized, float-quantized and pack-quantized are supported, found \"{}\" with {} of {} bits",
                     printable(format, 60), printable(weights.type, 60), weights.bits);
}

}  // namespace lockstep::files
