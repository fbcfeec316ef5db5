// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/vocabulary.h"

#include <functional>

namespace lockstep::tokenizer {

Status StringTable::add(int64_t id, std::string_view text) {
  if (id < 0 || id > kMaxTokenId) return invalid_argument("{:?} has id {}, allowed are 0..{}", text, id, kMaxTokenId);
  if (has(id)) return invalid_argument("{:?} and {:?} both have id {}", at(id), text, id);
  if (static_cast<size_t>(count_) * 2 >= slots_.size()) grow();
  const size_t slot = slot_of(text);
  if (slots_[slot] >= 0) return invalid_argument("{:?} is there twice, with ids {} and {}", text, slots_[slot], id);
  if (id >= size()) entries_.resize(static_cast<size_t>(id) + 1);
  entries_[static_cast<size_t>(id)] = {static_cast<int64_t>(pool_.size()), static_cast<uint32_t>(text.size())};
  pool_.append(text);
  slots_[slot] = static_cast<int32_t>(id);
  ++count_;
  return {};
}

std::string_view StringTable::at(int64_t id) const {
  if (!has(id)) return {};
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(pool_).substr(static_cast<size_t>(entry.offset), entry.size);
}

std::optional<int32_t> StringTable::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const int32_t id = slots_[slot_of(text)];
  if (id < 0) return std::nullopt;
  return id;
}

void StringTable::grow() {
  const std::vector<int32_t> old = std::move(slots_);
  slots_.assign(old.empty() ? 1024 : old.size() * 2, -1);
  for (const int32_t id : old) {
    if (id >= 0) slots_[slot_of(at(id))] = id;
  }
}

size_t StringTable::slot_of(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] >= 0 && at(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slot;
}

}  // namespace lockstep::tokenizer
