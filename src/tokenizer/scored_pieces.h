// SPDX-License-Identifier: Apache-2.0
// SentencePiece BPE vocabularies have a score for each piece instead of merges.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "tokenizer/bpe.h"
#include "tokenizer/vocabulary.h"

namespace lockstep::tokenizer {

struct ScoredPiece {
  std::string_view text;  ///< valid UTF-8
  int32_t id;
  double score;
};

/// SentencePiece merges two neighbours if together they are a piece, the piece with the highest score first. So each
/// way to cut a piece into two pieces is a merge, with the piece's place in the order of scores as rank; equals share
/// one. Fills `by_text` with the pieces.
Status merges_from_scores(std::span<const ScoredPiece> pieces, StringTable& by_text, MergeTable& merges);

/// The value of a "<0xE9>" token, or -1.
int byte_token_value(std::string_view spelling);

}  // namespace lockstep::tokenizer
