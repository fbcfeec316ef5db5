// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {

void MergeTable::reserve(size_t count) {
  size_t size = 16;
  while (size < count * 2) size *= 2;
  LOCKSTEP_CHECK(slots_.empty());
  slots_.assign(size, Merge{});
  mask_ = size - 1;
}

void MergeTable::put(int32_t left, int32_t right, uint32_t rank, int32_t id) {
  LOCKSTEP_CHECK((count_ + 1) * 2 <= slots_.size());
  const uint64_t pair = key(left, right);
  size_t slot = hash(pair) & mask_;
  while (slots_[slot].pair != kFree && slots_[slot].pair != pair) slot = (slot + 1) & mask_;
  if (slots_[slot].pair == kFree) ++count_;
  slots_[slot] = {pair, rank, id};
}

class BpeModel::Scratch final : public ModelScratch {
 public:
  WordCache cache;
  std::vector<int32_t> symbols;  // the piece so far
  std::vector<uint32_t> ranks;   // of the pair (i, i + 1)
  std::vector<int32_t> merged;   // what that pair becomes
  std::vector<uint32_t> next, previous;
  std::vector<uint64_t> heap;  // rank, then position: the smallest merges next
};

std::unique_ptr<ModelScratch> BpeModel::make_scratch() const { return std::make_unique<Scratch>(); }

void BpeModel::encode(std::string_view piece, ModelScratch& scratch, std::vector<int32_t>& out) const {
  auto& memory = static_cast<Scratch&>(scratch);
  if (piece.size() > WordCache::kMaxBytes) return encode_uncached(piece, memory, out);
  const WordCache::Key key = WordCache::key_of(piece);
  WordCache::Line& line = memory.cache.line(key);
  if (line.key == key) {
    out.insert(out.end(), line.ids.begin(), line.ids.begin() + line.id_count);
    return;
  }
  const size_t before = out.size();
  encode_uncached(piece, memory, out);
  WordCache::fill(line, key, std::span<const int32_t>(out).subspan(before));
}

void BpeModel::encode_uncached(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  if (config_.ignore_merges) {
    if (const auto id = config_.pieces->find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  scratch.symbols.clear();
  start_symbols(piece, scratch.symbols);
  constexpr size_t kShort = 64;  // below, looking at all pairs again beats the heap
  if (scratch.symbols.size() <= kShort) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
}

void BpeModel::start_symbols(std::string_view piece, std::vector<int32_t>& symbols) const {
  bool last_unknown = false;
  if (!config_.byte_level) {
    for (size_t pos = 0; pos < piece.size();) {
      const size_t size = utf8_at(piece, pos).size;
      start_character(piece.substr(pos, size), last_unknown, symbols);
      pos += size;
    }
    return;
  }
  for (const char c : piece) {
    const int32_t id = config_.byte_ids[static_cast<unsigned char>(c)];
    if (id >= 0) {
      symbols.push_back(id);
    } else if (config_.unknown_id && !(last_unknown && config_.fuse_unknown)) {
      symbols.push_back(*config_.unknown_id);
    }
    last_unknown = id < 0;
  }
}

void BpeModel::start_character(std::string_view character, bool& last_unknown, std::vector<int32_t>& symbols) const {
  if (const auto id = config_.pieces->find(character)) {
    symbols.push_back(*id);
    last_unknown = false;
    return;
  }
  const auto byte_id = [&](char c) { return config_.byte_ids[static_cast<unsigned char>(c)]; };
  if (config_.byte_fallback &&
      std::all_of(character.begin(), character.end(), [&](char c) { return byte_id(c) >= 0; })) {
    for (const char c : character) symbols.push_back(byte_id(c));
    last_unknown = false;
    return;
  }
  if (config_.unknown_id && !(last_unknown && config_.fuse_unknown)) symbols.push_back(*config_.unknown_id);
  last_unknown = true;
}

void BpeModel::merge_short(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& ranks = scratch.ranks;
  auto& merged = scratch.merged;
  if (symbols.size() < 2) return;
  ranks.resize(symbols.size());
  merged.resize(symbols.size());
  size_t pairs = symbols.size() - 1;
  const auto look_up = [&](size_t i) {
    const MergeTable::Merge merge = config_.merges.find(symbols[i], symbols[i + 1]);
    ranks[i] = merge.rank;
    merged[i] = merge.id;
  };
  for (size_t i = 0; i < pairs; ++i) look_up(i);
  while (pairs > 0) {
    size_t best = 0;
    for (size_t i = 1; i < pairs; ++i) best = ranks[i] < ranks[best] ? i : best;
    if (ranks[best] == MergeTable::kNoRank) break;
    symbols[best] = merged[best];
    for (size_t i = best + 1; i < pairs; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i - 1] = ranks[i];
      merged[i - 1] = merged[i];
    }
    --pairs;
    if (best > 0) look_up(best - 1);
    if (best < pairs) look_up(best);
  }
  symbols.resize(pairs + 1);
}

// O(n log n): a heap of candidate pairs over a linked list of symbols. A heap entry is stale, and skipped, when the
// pair at its position has another rank by now.
void BpeModel::merge_long(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& ranks = scratch.ranks;
  auto& merged = scratch.merged;
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  auto& heap = scratch.heap;
  const size_t count = symbols.size();
  ranks.resize(count);
  merged.resize(count);
  next.resize(count);
  previous.resize(count);
  heap.clear();
  const auto end = static_cast<uint32_t>(count);  // also "none" for previous
  const auto look_up = [&](uint32_t i) {
    const MergeTable::Merge merge = next[i] < end ? config_.merges.find(symbols[i], symbols[next[i]])
                                                  : MergeTable::Merge{0, MergeTable::kNoRank, -1};
    ranks[i] = merge.rank;
    merged[i] = merge.id;
    if (merge.rank != MergeTable::kNoRank) heap.push_back((uint64_t{merge.rank} << 32) | i);
    return merge.rank != MergeTable::kNoRank;
  };
  const auto push = [&](uint32_t i) {
    if (look_up(i)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t i = 0; i < end; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? end : i - 1;
  }
  for (uint32_t i = 0; i < end; ++i) look_up(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto i = static_cast<uint32_t>(top);
    if (ranks[i] != static_cast<uint32_t>(top >> 32)) continue;
    const uint32_t gone = next[i];
    symbols[i] = merged[i];
    ranks[gone] = MergeTable::kNoRank;
    next[i] = next[gone];
    if (next[i] < end) previous[next[i]] = i;
    push(i);
    if (previous[i] < end) push(previous[i]);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i < end; i = next[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace lockstep::tokenizer
