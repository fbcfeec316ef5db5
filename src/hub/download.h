// SPDX-License-Identifier: Apache-2.0
// Downloads files in ranges over several connections.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/status.h"
#include "hub/http.h"
#include "hub/repository.h"

namespace lockstep::hub {

/// Bytes that are there and bytes in all.
using Progress = std::function<void(int64_t done, int64_t total)>;

struct Target {
  RemoteFile file;
  std::filesystem::path path;  ///< what it becomes when it is whole and its hash is right
};

/// Downloads all targets, going on where an earlier run stopped. A range that fails is tried again after a pause
/// (longer each time, or what Retry-After says); what came before counts. A file with a wrong hash is fetched once
/// more. Errors: kUnavailable (network; a later run goes on), kDataLoss (wrong hash, size or answer),
/// kResourceExhausted (disk), refusal()'s.
Status download(const Http& http, const Settings& settings, std::string_view repository,
                const std::vector<Target>& targets, const Progress& progress);

}  // namespace lockstep::hub
