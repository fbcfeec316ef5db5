// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/scored_pieces.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

constexpr size_t kMaxPieceBytes =
    1024;  // SentencePiece trains 16 characters; the cuts of a piece cost its length squared

struct Merge {
  int32_t left, right, whole;
  uint32_t rank;
};

}  // namespace

Status merges_from_scores(std::span<const ScoredPiece> pieces, StringTable& by_text, MergeTable& merges) {
  std::vector<double> scores;
  for (const ScoredPiece& piece : pieces) {
    if (piece.text.size() > kMaxPieceBytes) {
      return error(StatusCode::kUnsupported, "token {} has {} bytes, at most {}", piece.id, piece.text.size(),
                   kMaxPieceBytes);
    }
    if (!std::isfinite(piece.score))
      return error(StatusCode::kDataLoss, "the score of token {} is {}", piece.id, piece.score);
    LOCKSTEP_RETURN_IF_ERROR(by_text.add(piece.id, piece.text));
    scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<Merge> found;
  for (const ScoredPiece& piece : pieces) {
    const auto rank = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) - scores.begin();
    for (size_t cut = 0; (cut += piece.text.empty() ? 1 : utf8_at(piece.text, cut).size) < piece.text.size();) {
      const auto left = by_text.find(piece.text.substr(0, cut));
      const auto right = by_text.find(piece.text.substr(cut));
      if (left && right) found.push_back({*left, *right, piece.id, static_cast<uint32_t>(rank)});
    }
  }
  merges.reserve(found.size());
  for (const Merge& merge : found) merges.put(merge.left, merge.right, merge.rank, merge.whole);
  return {};
}

int byte_token_value(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return -1;
  int value = 0;
  for (const char c : spelling.substr(3, 2)) {
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if (c >= 'A' && c <= 'F') {
      value = value * 16 + (c - 'A' + 10);
    } else {
      return -1;
    }
  }
  return value;
}

}  // namespace lockstep::tokenizer
