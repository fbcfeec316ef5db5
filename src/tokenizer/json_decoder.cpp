// SPDX-License-Identifier: Apache-2.0
// "decoder" and "post_processor" of tokenizer.json.
#include "tokenizer/byte_level.h"
#include "tokenizer/scored_pieces.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocabulary.h"

namespace lockstep::tokenizer {
namespace {

constexpr int kMaxDepth = 8;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t pos = 0; (pos = text.find(from, pos)) != std::string::npos; pos += to.size())
    text.replace(pos, from.size(), to);
}

Status read_strip(const Field& field, DecoderRules& rules) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string content, field.at("content").string());
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t start, field.at("start").integer());
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t stop, field.at("stop").integer());
  if (start == 0 && stop == 0) return {};
  if (content != " " || start != 1 || stop != 0)
    return field.unsupported("only {content \" \", start 1, stop 0} is supported");
  rules.start = DecodeStart::kOneSpace;
  return {};
}

Status read_metaspace(const Field& field, DecoderRules& rules) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::string replacement, field.at("replacement").string());
  LOCKSTEP_ASSIGN_OR_RETURN(const bool old_prefix, field.at("add_prefix_space").boolean(true));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string scheme,
                            field.at("prepend_scheme").string_or(old_prefix ? "always" : "never"));
  if (replacement.empty()) return field.at("replacement").wrong("one character");
  if (scheme != "never") rules.start = DecodeStart::kFirstTokenSpaces;
  rules.replacements.emplace_back(std::move(replacement), " ");
  return {};
}

Status read_decoder_step(const Field& field, int depth, DecoderRules& rules) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view type, field.type());
  if (type == "Sequence") {
    const Field steps = field.at("decoders");
    LOCKSTEP_RETURN_IF_ERROR(steps.expect_array());
    if (depth >= kMaxDepth) return field.unsupported("nested too deep");
    for (size_t i = 0; i < steps.size(); ++i)
      LOCKSTEP_RETURN_IF_ERROR(read_decoder_step(steps.at(i), depth + 1, rules));
    return {};
  }
  if (type == "Strip") return read_strip(field, rules);
  if (type == "Metaspace") return read_metaspace(field, rules);
  if (type == "ByteLevel") {
    rules.byte_level = true;
  } else if (type == "ByteFallback") {
    rules.byte_fallback = true;
  } else if (type == "Replace") {
    LOCKSTEP_ASSIGN_OR_RETURN(Pattern pattern, read_pattern(field.at("pattern")));
    LOCKSTEP_ASSIGN_OR_RETURN(std::string content, field.at("content").string());
    if (pattern.is_regex) return field.at("pattern").unsupported("a regex in a decoder is not supported");
    rules.replacements.emplace_back(std::move(pattern.text), std::move(content));
  } else if (type != "Fuse") {
    return field.at("type").unsupported("a decoder that Lockstep does not have");
  }
  return {};
}

// One id as a checked int32.
Expected<int32_t> read_id(const Field& field) {
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t id, field.integer());
  if (id < 0 || id > kMaxTokenId) return field.wrong(fmt::format("an id in 0..{}", kMaxTokenId));
  return static_cast<int32_t>(id);
}

Status read_template(const Field& field, std::vector<int32_t>& prefix, std::vector<int32_t>& suffix) {
  const Field single = field.at("single");
  LOCKSTEP_RETURN_IF_ERROR(single.expect_array());
  bool seen_text = false;
  for (size_t i = 0; i < single.size(); ++i) {
    const Field item = single.at(i);
    if (!item.at("Sequence").is_null()) {
      if (seen_text) return item.unsupported("the text twice in one template");
      seen_text = true;
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string name, item.at("SpecialToken").at("id").string());
    const Field ids = field.at("special_tokens").at(name).at("ids");
    LOCKSTEP_RETURN_IF_ERROR(ids.expect_array());
    for (size_t k = 0; k < ids.size(); ++k) {
      LOCKSTEP_ASSIGN_OR_RETURN(const int32_t id, read_id(ids.at(k)));
      (seen_text ? suffix : prefix).push_back(id);
    }
  }
  return seen_text ? Status() : Status(single.wrong("a template with the text in it"));
}

Status read_post_processor_step(const Field& field, int depth, std::vector<int32_t>& prefix,
                                std::vector<int32_t>& suffix) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view type, field.type());
  if (type == "ByteLevel") return {};  // about offsets only
  if (type == "TemplateProcessing") {
    std::vector<int32_t> outer_prefix;
    LOCKSTEP_RETURN_IF_ERROR(read_template(field, outer_prefix, suffix));
    prefix.insert(prefix.begin(), outer_prefix.begin(), outer_prefix.end());
    return {};
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    LOCKSTEP_ASSIGN_OR_RETURN(const int32_t first, read_id(field.at("cls").at(1)));
    LOCKSTEP_ASSIGN_OR_RETURN(const int32_t last, read_id(field.at("sep").at(1)));
    prefix.insert(prefix.begin(), first);
    suffix.push_back(last);
    return {};
  }
  if (type != "Sequence") return field.at("type").unsupported("a post-processor that Lockstep does not have");
  const Field steps = field.at("processors");
  LOCKSTEP_RETURN_IF_ERROR(steps.expect_array());
  if (depth >= kMaxDepth) return field.unsupported("nested too deep");
  for (size_t i = 0; i < steps.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(read_post_processor_step(steps.at(i), depth + 1, prefix, suffix));
  }
  return {};
}

}  // namespace

std::string DecoderRules::bytes_of(std::string_view spelling) const {
  if (byte_level) {
    if (auto bytes = byte_level_bytes(spelling)) return std::move(*bytes);
    return std::string(spelling);
  }
  if (byte_fallback) {
    if (const int value = byte_token_value(spelling); value >= 0) return std::string(1, static_cast<char>(value));
  }
  std::string text(spelling);
  for (const auto& [from, to] : replacements) replace_all(text, from, to);
  return text;
}

Expected<DecoderRules> read_decoder(const Field& field) {
  if (field.is_null()) return field.unsupported("a tokenizer without a decoder is not supported");
  DecoderRules rules;
  LOCKSTEP_RETURN_IF_ERROR(read_decoder_step(field, 0, rules));
  return rules;
}

Status read_post_processor(const Field& field, std::vector<int32_t>& prefix, std::vector<int32_t>& suffix) {
  if (field.is_null()) return {};
  return read_post_processor_step(field, 0, prefix, suffix);
}

}  // namespace lockstep::tokenizer
