// SPDX-License-Identifier: Apache-2.0
// "normalizer" and "pre_tokenizer" of tokenizer.json.
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

constexpr int kMaxDepth = 8;  // of Sequences in Sequences

std::optional<NormalForm> normal_form(std::string_view name) {
  if (name == "NFC") return NormalForm::kNfc;
  if (name == "NFD") return NormalForm::kNfd;
  if (name == "NFKC") return NormalForm::kNfkc;
  if (name == "NFKD") return NormalForm::kNfkd;
  return std::nullopt;
}

Status read_normalizer_step(const Field& field, int depth, NormalizerList& out) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view type, field.type());
  if (type == "Sequence") {
    const Field steps = field.at("normalizers");
    LOCKSTEP_RETURN_IF_ERROR(steps.expect_array());
    if (depth >= kMaxDepth) return field.unsupported("nested too deep");
    for (size_t i = 0; i < steps.size(); ++i)
      LOCKSTEP_RETURN_IF_ERROR(read_normalizer_step(steps.at(i), depth + 1, out));
    return {};
  }
  if (const auto form = normal_form(type)) {
    out.push_back(make_unicode_normalizer(*form));
  } else if (type == "Prepend") {
    LOCKSTEP_ASSIGN_OR_RETURN(std::string text, field.at("prepend").string());
    out.push_back(make_prepend(std::move(text)));
  } else if (type == "Strip") {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool left, field.at("strip_left").boolean(true));
    LOCKSTEP_ASSIGN_OR_RETURN(const bool right, field.at("strip_right").boolean(true));
    out.push_back(make_strip(left, right));
  } else if (type == "Replace") {
    LOCKSTEP_ASSIGN_OR_RETURN(Pattern pattern, read_pattern(field.at("pattern")));
    LOCKSTEP_ASSIGN_OR_RETURN(std::string content, field.at("content").string());
    if (!pattern.is_regex) {
      out.push_back(make_replace(std::move(pattern.text), std::move(content)));
      return {};
    }
    auto step = make_regex_replace(pattern.text, std::move(content));
    if (!step) return step.error().with_context(field.at("pattern").where());
    out.push_back(std::move(*step));
  } else {
    return field.at("type").unsupported("a normalizer that Lockstep does not have");
  }
  return {};
}

Expected<SplitBehavior> read_behavior(const Field& field, SplitBehavior fallback) {
  if (field.is_null()) return fallback;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string name, field.string());
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return field.wrong("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class PreTokenizerReader final {
 public:
  PreTokenizerReader(PreTokenizerList& out, bool& byte_level) : out_(out), byte_level_(byte_level) {}

  Status read(const Field& field, int depth) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view type, field.type());
    if (type == "Sequence") {
      const Field steps = field.at("pretokenizers");
      LOCKSTEP_RETURN_IF_ERROR(steps.expect_array());
      if (depth >= kMaxDepth) return field.unsupported("nested too deep");
      for (size_t i = 0; i < steps.size(); ++i) LOCKSTEP_RETURN_IF_ERROR(read(steps.at(i), depth + 1));
      return {};
    }
    // After ByteLevel the text is in another alphabet, which no step here knows.
    if (byte_level_) return field.unsupported("a pre-tokenizer after ByteLevel is not supported");
    if (type == "Split") return split(field);
    if (type == "ByteLevel") return byte_level(field);
    if (type == "Metaspace") return metaspace(field);
    if (type == "Digits") {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool individual, field.at("individual_digits").boolean(false));
      out_.push_back(make_digits(individual));
    } else if (type == "Punctuation") {
      LOCKSTEP_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                                read_behavior(field.at("behavior"), SplitBehavior::kIsolated));
      out_.push_back(make_punctuation(behavior));
    } else if (type == "WhitespaceSplit") {
      out_.push_back(make_whitespace_split());
    } else if (type == "Whitespace") {
      return regex(field, R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}]+|[^\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\s]+)",
                   SplitBehavior::kRemoved, true);
    } else if (type == "CharDelimiterSplit") {
      LOCKSTEP_ASSIGN_OR_RETURN(std::string delimiter, field.at("delimiter").string());
      if (delimiter.empty()) return field.at("delimiter").wrong("one character");
      out_.push_back(make_string_split(std::move(delimiter), SplitBehavior::kRemoved, false));
    } else {
      return field.at("type").unsupported("a pre-tokenizer that Lockstep does not have");
    }
    return {};
  }

 private:
  Status regex(const Field& field, std::string_view text, SplitBehavior behavior, bool invert) {
    auto step = make_regex_split(text, behavior, invert);
    if (!step) return step.error().with_context(field.at("pattern").where());
    out_.push_back(std::move(*step));
    return {};
  }

  Status split(const Field& field) {
    LOCKSTEP_ASSIGN_OR_RETURN(Pattern pattern, read_pattern(field.at("pattern")));
    LOCKSTEP_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                              read_behavior(field.at("behavior"), SplitBehavior::kIsolated));
    LOCKSTEP_ASSIGN_OR_RETURN(const bool invert, field.at("invert").boolean(false));
    if (pattern.is_regex) return regex(field, pattern.text, behavior, invert);
    out_.push_back(make_string_split(std::move(pattern.text), behavior, invert));
    return {};
  }

  Status byte_level(const Field& field) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool prefix_space, field.at("add_prefix_space").boolean(true));
    LOCKSTEP_ASSIGN_OR_RETURN(const bool use_regex, field.at("use_regex").boolean(true));
    if (prefix_space) out_.push_back(make_prefix_space());
    if (use_regex) LOCKSTEP_RETURN_IF_ERROR(regex(field, kGpt2Pattern, SplitBehavior::kIsolated, false));
    byte_level_ = true;
    return {};
  }

  Status metaspace(const Field& field) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::string replacement, field.at("replacement").string());
    if (replacement.empty() || utf8_at(replacement, 0).size != replacement.size()) {
      return field.at("replacement").wrong("one character");
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const bool cuts, field.at("split").boolean(true));
    LOCKSTEP_ASSIGN_OR_RETURN(const bool old_prefix, field.at("add_prefix_space").boolean(true));
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string scheme,
                              field.at("prepend_scheme").string_or(old_prefix ? "always" : "never"));
    PrependScheme prepend = PrependScheme::kAlways;
    if (scheme == "first") {
      prepend = PrependScheme::kFirst;
    } else if (scheme == "never") {
      prepend = PrependScheme::kNever;
    } else if (scheme != "always") {
      return field.at("prepend_scheme").wrong("always, first or never");
    }
    out_.push_back(make_metaspace(std::move(replacement), prepend, cuts));
    return {};
  }

  PreTokenizerList& out_;
  bool& byte_level_;
};

}  // namespace

Expected<Pattern> read_pattern(const Field& field) {
  LOCKSTEP_RETURN_IF_ERROR(field.expect_object());
  Pattern pattern;
  pattern.is_regex = !field.at("Regex").is_null();
  LOCKSTEP_ASSIGN_OR_RETURN(pattern.text, field.at(pattern.is_regex ? "Regex" : "String").string());
  if (pattern.text.empty()) return field.wrong("a pattern that is not empty");
  return pattern;
}

Status read_normalizer(const Field& field, NormalizerList& out) {
  if (field.is_null()) return {};
  return read_normalizer_step(field, 0, out);
}

Status read_pre_tokenizer(const Field& field, PreTokenizerList& out, bool& byte_level) {
  byte_level = false;
  if (field.is_null()) return {};
  return PreTokenizerReader(out, byte_level).read(field, 0);
}

}  // namespace lockstep::tokenizer
