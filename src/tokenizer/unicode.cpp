// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace lockstep::tokenizer {
namespace {

struct CategoryRun {  // up to the next run's first
  uint32_t first;
  Category category;
  bool newer;  // another category, or none, in Unicode 14
};
struct InertRun {
  uint32_t first;
  bool inert;
};

#include "tokenizer/unicode_table.inc"

constexpr uint32_t kCodePoints = 0x110000;

uint32_t end_of_run(size_t i) { return i + 1 < std::size(kCategoryRuns) ? kCategoryRuns[i + 1].first : kCodePoints; }

}  // namespace

std::optional<CategorySet> categories_named(std::string_view name) {
  static constexpr std::pair<std::string_view, CategorySet> kNames[] = {{"L", kLetter},
                                                                        {"M", kMark},
                                                                        {"N", kNumber},
                                                                        {"P", kPunctuation},
                                                                        {"S", kSymbol},
                                                                        {"Z", categories(kCZs, kCZl, kCZp)},
                                                                        {"C", kOther},
                                                                        {"Lu", categories(kCLu)},
                                                                        {"Ll", categories(kCLl)},
                                                                        {"Lt", categories(kCLt)},
                                                                        {"Lm", categories(kCLm)},
                                                                        {"Lo", categories(kCLo)},
                                                                        {"Mn", categories(kCMn)},
                                                                        {"Mc", categories(kCMc)},
                                                                        {"Me", categories(kCMe)},
                                                                        {"Nd", categories(kCNd)},
                                                                        {"Nl", categories(kCNl)},
                                                                        {"No", categories(kCNo)},
                                                                        {"Pc", categories(kCPc)},
                                                                        {"Pd", categories(kCPd)},
                                                                        {"Ps", categories(kCPs)},
                                                                        {"Pe", categories(kCPe)},
                                                                        {"Pi", categories(kCPi)},
                                                                        {"Pf", categories(kCPf)},
                                                                        {"Po", categories(kCPo)},
                                                                        {"Sm", categories(kCSm)},
                                                                        {"Sc", categories(kCSc)},
                                                                        {"Sk", categories(kCSk)},
                                                                        {"So", categories(kCSo)},
                                                                        {"Zs", categories(kCZs)},
                                                                        {"Zl", categories(kCZl)},
                                                                        {"Zp", categories(kCZp)},
                                                                        {"Cc", categories(kCCc, kCCcSpace)},
                                                                        {"Cf", categories(kCCf)},
                                                                        {"Co", categories(kCCo)},
                                                                        {"Cn", categories(kCCn)}};
  for (const auto& [known, set] : kNames) {
    if (known == name) return set;
  }
  return std::nullopt;
}

const CategoryTable& CategoryTable::get() {
  static const CategoryTable table;
  return table;
}

CategoryTable::CategoryTable() {
  std::map<std::array<uint8_t, 256>, uint16_t> seen;
  size_t run = 0;
  for (uint32_t block = 0; block < block_of_.size(); ++block) {
    std::array<uint8_t, 256> values{};
    for (uint32_t i = 0; i < 256; ++i) {
      while (end_of_run(run) <= block * 256 + i) ++run;
      values[i] = kCategoryRuns[run].category;
    }
    const auto [found, is_new] = seen.emplace(values, static_cast<uint16_t>(blocks_.size()));
    if (is_new) blocks_.push_back(values);
    block_of_[block] = found->second;
  }
}

std::vector<CodePointRange> ranges_of(CategorySet set, bool newer_only) {
  std::vector<CodePointRange> out;
  for (size_t i = 0; i < std::size(kCategoryRuns); ++i) {
    const CategoryRun& run = kCategoryRuns[i];
    if (((set >> run.category) & 1u) == 0 || run.category == kCCs || (newer_only && !run.newer)) continue;
    if (!out.empty() && out.back().last + 1 == run.first) {
      out.back().last = end_of_run(i) - 1;
    } else {
      out.push_back({run.first, end_of_run(i) - 1});
    }
  }
  return out;
}

bool is_inert_in_normalisation(char32_t code_point) {
  const auto* after = std::upper_bound(std::begin(kInertRuns), std::end(kInertRuns), code_point,
                                       [](char32_t value, const InertRun& run) { return value < run.first; });
  return after != std::begin(kInertRuns) && std::prev(after)->inert;
}

}  // namespace lockstep::tokenizer
