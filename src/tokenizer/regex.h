// SPDX-License-Identifier: Apache-2.0
// PCRE2 with JIT, for patterns of tokenizer.json.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/status.h"

namespace lockstep::tokenizer {

/// A compiled pattern. Immutable; use it from many threads through one RegexMatcher each.
class Regex final {
 public:
  /// `pattern` in Oniguruma's syntax, translated first. kInvalidArgument or kUnsupported say where and what is wrong.
  static Expected<std::shared_ptr<const Regex>> compile(std::string_view pattern);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

 private:
  friend class RegexMatcher;
  explicit Regex(void* code) : code_(code) {}
  void* code_;  // pcre2_code
};

struct RegexMatch {
  bool found = false;
  size_t begin = 0;
  size_t end = 0;
};

/// Working memory of a search. One thread at a time.
class RegexMatcher final {
 public:
  explicit RegexMatcher(const Regex& regex);
  ~RegexMatcher();
  RegexMatcher(const RegexMatcher&) = delete;
  RegexMatcher& operator=(const RegexMatcher&) = delete;

  /// The first match at or after `from`. `subject` must be valid UTF-8. kResourceExhausted past PCRE2's match limit.
  Expected<RegexMatch> find(std::string_view subject, size_t from);

 private:
  const Regex& regex_;
  void* match_data_;
  void* context_ = nullptr;  // made when the default JIT stack (32 KB) was too small
  void* jit_stack_ = nullptr;
};

}  // namespace lockstep::tokenizer
