// SPDX-License-Identifier: Apache-2.0
// Unigram: of all ways to cut a piece into tokens, the one with the highest sum of scores (Kudo 2018).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/model.h"
#include "tokenizer/vocabulary.h"

namespace lockstep::tokenizer {

struct UnigramConfig {
  std::shared_ptr<const StringTable> pieces;
  std::vector<double> scores;           ///< by id
  int32_t unknown_id = 0;               ///< for a character that is in no token; neighbours become one
  bool byte_fallback = false;           ///< unknown characters become byte tokens, if all are there
  std::array<int32_t, 256> byte_ids{};  ///< -1 = none
};

class UnigramModel final : public Model {
 public:
  explicit UnigramModel(UnigramConfig config);
  std::unique_ptr<ModelScratch> make_scratch() const override;
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<int32_t>& out) const override;

 private:
  class Scratch;
  void find_best_path(std::string_view piece, Scratch& scratch) const;
  void put_unknown(std::string_view text, std::vector<int32_t>& out) const;

  UnigramConfig config_;
  ByteTrie trie_;
  double unknown_score_ = 0;
};

}  // namespace lockstep::tokenizer
