// SPDX-License-Identifier: Apache-2.0
// tokenizer.json's patterns are Oniguruma's (Ruby syntax, Unicode 16); they are rewritten for PCRE2 10.42 (Unicode 14).
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep::tokenizer {

/// \s, \d, \w, \p{..} and their negations become classes with the members that the library sees; \uHHHH becomes
/// \x{HHHH}. kUnsupported for what PCRE2 would read differently (&& and nested sets in classes, \h, ...).
Expected<std::string> translate_regex(std::string_view pattern);

}  // namespace lockstep::tokenizer
