// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>

#include "tokenizer/regex_translate.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

constexpr size_t kMaxPattern = 64 * 1024;
constexpr size_t kJitStackBytes = size_t{16} << 20;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

Expected<std::shared_ptr<const Regex>> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern)
    return invalid_argument("a regex of {} bytes, at most {}", pattern.size(), kMaxPattern);
  if (!is_valid_utf8(pattern)) return invalid_argument("a regex that is not UTF-8");
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string translated, translate_regex(pattern));
  int code = 0;
  PCRE2_SIZE offset = 0;
  // Ruby syntax: ^ and $ are about lines.
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  if (compiled == nullptr) return invalid_argument("regex {:?}: {}", pattern, message_of(code));
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // where there is no JIT, matching is slower
  return std::shared_ptr<const Regex>(new Regex(compiled));
}

Regex::~Regex() { pcre2_code_free(static_cast<pcre2_code*>(code_)); }

RegexMatcher::RegexMatcher(const Regex& regex)
    : regex_(regex), match_data_(pcre2_match_data_create_from_pattern(static_cast<pcre2_code*>(regex.code_), nullptr)) {
  if (match_data_ == nullptr) throw std::bad_alloc();
}

RegexMatcher::~RegexMatcher() {
  pcre2_match_data_free(static_cast<pcre2_match_data*>(match_data_));
  pcre2_match_context_free(static_cast<pcre2_match_context*>(context_));
  pcre2_jit_stack_free(static_cast<pcre2_jit_stack*>(jit_stack_));
}

Expected<RegexMatch> RegexMatcher::find(std::string_view subject, size_t from) {
  auto* data = static_cast<pcre2_match_data*>(match_data_);
  const auto match = [&] {
    return pcre2_match(static_cast<pcre2_code*>(regex_.code_), reinterpret_cast<PCRE2_SPTR>(subject.data()),
                       subject.size(), from, PCRE2_NO_UTF_CHECK, data, static_cast<pcre2_match_context*>(context_));
  };
  int result = match();
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && context_ == nullptr) {
    auto* context = pcre2_match_context_create(nullptr);
    auto* stack = pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr);
    if (context != nullptr && stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
    context_ = context;
    jit_stack_ = stack;
    result = match();
  }
  if (result == PCRE2_ERROR_NOMATCH) return RegexMatch{};
  if (result < 0) {
    return error(StatusCode::kResourceExhausted, "a pre-tokenizer regex failed on this text: {}", message_of(result));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data);
  if (offsets[0] > offsets[1]) return RegexMatch{true, offsets[1], offsets[1]};  // \K in a lookahead can do this
  return RegexMatch{true, offsets[0], offsets[1]};
}

}  // namespace lockstep::tokenizer
