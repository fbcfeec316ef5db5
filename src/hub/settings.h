// SPDX-License-Identifier: Apache-2.0
// Where the Hub is and where its files lie here, by the environment variables of huggingface_hub.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/status.h"

namespace lockstep::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";  ///< HF_ENDPOINT; without a slash at its end
  std::string token;  ///< HF_TOKEN, else the file HF_TOKEN_PATH or $HF_HOME/token; "" = none
  std::filesystem::path
      cache;             ///< HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/...
  bool offline = false;  ///< HF_HUB_OFFLINE is 1, true, yes or on
  int64_t chunk_bytes = int64_t{32} << 20;  ///< LOCKSTEP_HUB_CHUNK_BYTES: what one connection takes at a time
  int connections = 8;                      ///< at once
  int64_t retries = 6;                      ///< LOCKSTEP_HUB_RETRIES: of a request or range that makes no progress
  int64_t first_wait_ms = 500;              ///< before the first retry; doubles up to a minute
};

/// Errors (kInvalidArgument) name the variable and what is wrong with it. Reads the environment: call before threads.
Expected<Settings> settings_from_environment();

}  // namespace lockstep::hub
