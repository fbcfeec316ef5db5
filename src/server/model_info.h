// SPDX-License-Identifier: Apache-2.0
// What the schemas need to know of the served model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/text_model.h"

namespace lockstep::server {

struct ModelInfo {
  std::vector<std::string> names;  ///< the first is the one in answers; at least one
  std::string root;                ///< what --model named
  int64_t created = 0;             ///< Unix seconds
  int64_t max_model_len = 0;       ///< tokens
  int64_t vocab_size = 0;
  int64_t max_choices = 128;  ///< prompts x n of one request
  text::SamplingDefaults defaults;
};

}  // namespace lockstep::server
