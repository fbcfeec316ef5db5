// SPDX-License-Identifier: Apache-2.0
// What the Hub says of a model: its commit, its files, and each file's size and hash. Source of the protocol: the
// public HTTP API that huggingface_hub uses (GET /api/models/REPO/revision/REV, HEAD /REPO/resolve/COMMIT/FILE).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/http.h"
#include "hub/model_name.h"

namespace lockstep::hub {

struct Listing {
  std::string commit;              ///< 40 hex digits
  std::vector<std::string> files;  ///< safe names, as the Hub orders them
};

struct RemoteFile {
  std::string name;
  std::string url;   ///< at the endpoint; it may redirect
  std::string etag;  ///< safe as a file name; SHA-256 of large files, git's hash of others
  int64_t size = 0;  ///< bytes
};

/// Parses the answer to the revision request; names that are not safe are refused (kDataLoss). `source` starts
/// messages.
Expected<Listing> parse_listing(std::string_view json, std::string_view source);

/// Asks for a revision. Errors: refusal()'s, kDataLoss for an answer that is none.
Expected<Listing> list_files(const Http& http, const Settings& settings, const ModelName& model);

/// Asks for a file's size and hash.
Expected<RemoteFile> describe_file(const Http& http, const Settings& settings, const ModelName& model,
                                   const std::string& commit, const std::string& file);

/// The files of a folder model that come before its weights: config, index, tokenizer, template.
std::vector<std::string> side_files(const Listing& listing);
/// The GGUF file that `wanted` names (a file, or a part of exactly one's name; "" = the only one) and its other parts,
/// the first part first. Empty: none. kInvalidArgument lists the candidates.
Expected<std::vector<std::string>> gguf_files(const std::vector<std::string>& files, const std::string& wanted,
                                              std::string_view model);

}  // namespace lockstep::hub
