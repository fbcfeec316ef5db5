// SPDX-License-Identifier: Apache-2.0
// Byte pair encoding: of all neighbouring pairs that may merge, the one with the lowest rank does, the leftmost of
// equals.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/model.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_cache.h"

namespace lockstep::tokenizer {

/// (left id, right id) -> (rank, merged id), open addressing.
class MergeTable final {
 public:
  struct Merge {
    uint64_t pair = kFree;
    uint32_t rank = 0;
    int32_t id = 0;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;

  void reserve(size_t count);
  /// A pair that is there already gets the new rank and id, as in the library.
  void put(int32_t left, int32_t right, uint32_t rank, int32_t id);
  /// rank kNoRank if the pair doesn't merge.
  Merge find(int32_t left, int32_t right) const {
    if (slots_.empty()) return {kFree, kNoRank, -1};
    const uint64_t pair = key(left, right);
    for (size_t slot = hash(pair) & mask_;; slot = (slot + 1) & mask_) {
      if (slots_[slot].pair == pair) return slots_[slot];
      if (slots_[slot].pair == kFree) return {kFree, kNoRank, -1};
    }
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  static uint64_t key(int32_t left, int32_t right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  }
  static uint64_t hash(uint64_t pair) {
    pair *= 0x9E3779B97F4A7C15u;
    return pair ^ (pair >> 32);
  }
  std::vector<Merge> slots_;
  size_t mask_ = 0;
  size_t count_ = 0;
};

struct BpeConfig {
  bool byte_level = false;                    ///< pieces are bytes; else characters of UTF-8
  std::array<int32_t, 256> byte_ids{};        ///< byte_level: id of each byte; else of its <0xXX> token. -1 = none
  bool byte_fallback = false;                 ///< a character without id becomes byte tokens
  std::optional<int32_t> unknown_id;          ///< for what has no id otherwise; without it that is dropped
  bool fuse_unknown = false;                  ///< neighbouring unknowns become one
  bool ignore_merges = false;                 ///< a piece that is a token as a whole is that token
  std::shared_ptr<const StringTable> pieces;  ///< text -> id, for characters and ignore_merges; bytes if byte_level
  MergeTable merges;
};

class BpeModel final : public Model {
 public:
  explicit BpeModel(BpeConfig config) : config_(std::move(config)) {}
  std::unique_ptr<ModelScratch> make_scratch() const override;
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<int32_t>& out) const override;

 private:
  class Scratch;
  void encode_uncached(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;
  void start_symbols(std::string_view piece, std::vector<int32_t>& symbols) const;
  void start_character(std::string_view character, bool& last_unknown, std::vector<int32_t>& symbols) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  BpeConfig config_;
};

}  // namespace lockstep::tokenizer
