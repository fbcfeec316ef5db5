// SPDX-License-Identifier: Apache-2.0
#include "hub/file_hash.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <vector>

namespace lockstep::hub {

HashKind hash_kind(std::string_view etag) {
  const bool hex =
      std::all_of(etag.begin(), etag.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!hex) return HashKind::kNone;
  return etag.size() == 64 ? HashKind::kSha256 : etag.size() == 40 ? HashKind::kGitSha1 : HashKind::kNone;
}

Expected<std::string> hash_file(const std::filesystem::path& file, HashKind kind) {
  if (kind == HashKind::kNone) return std::string();
  std::error_code code;
  const uintmax_t size = std::filesystem::file_size(file, code);
  std::ifstream stream(file, std::ios::binary);
  if (code || !stream) return error(StatusCode::kNotFound, "{}: cannot be read", file.string());
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  bool good = context != nullptr &&
              EVP_DigestInit_ex(context.get(), kind == HashKind::kSha256 ? EVP_sha256() : EVP_sha1(), nullptr) == 1;
  if (kind == HashKind::kGitSha1) {
    const std::string header = fmt::format("blob {}", size);
    good = good && EVP_DigestUpdate(context.get(), header.c_str(), header.size() + 1) == 1;  // with its zero
  }
  std::vector<char> block(size_t{1} << 20);
  while (good && stream) {
    stream.read(block.data(), static_cast<std::streamsize>(block.size()));
    good = EVP_DigestUpdate(context.get(), block.data(), static_cast<size_t>(stream.gcount())) == 1;
  }
  if (stream.bad()) return error(StatusCode::kDataLoss, "{}: cannot be read", file.string());
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (!good || EVP_DigestFinal_ex(context.get(), digest.data(), &length) != 1) {
    return error(StatusCode::kInternal, "{}: OpenSSL cannot compute its hash", file.string());
  }
  std::string out;
  for (unsigned i = 0; i < length; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

}  // namespace lockstep::hub
