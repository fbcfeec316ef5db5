// SPDX-License-Identifier: Apache-2.0
// The header of a GGUF file, parsed from bytes. Internal to the room; see gguf.h for the public view.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "files/gguf.h"

namespace lockstep::files {

struct GgufContents {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  ///< in file order; data points into the bytes that were parsed
};

/// `file` is named in errors. Memory used is bounded by a small multiple of bytes.size(), whatever the counts claim.
Expected<GgufContents> parse_gguf(std::span<const std::byte> bytes, const std::string& file);

}  // namespace lockstep::files
