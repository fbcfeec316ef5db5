// SPDX-License-Identifier: Apache-2.0
// The hash that the Hub's ETag of a file is: SHA-256 for large (LFS) files, git's blob SHA-1 for others.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep::hub {

/// What an ETag can be compared with, by its length: 64 hex digits, 40, or anything else.
enum class HashKind { kNone, kGitSha1, kSha256 };
HashKind hash_kind(std::string_view etag);

/// Lower-case hex of the file's hash; git's is over "blob <size>\0" and the bytes. "" for kNone. Errors: cannot be
/// read.
Expected<std::string> hash_file(const std::filesystem::path& file, HashKind kind);

}  // namespace lockstep::hub
