// SPDX-License-Identifier: Apache-2.0
// What a code point is, as Hugging Face's tokenizers sees it (Unicode 16). Debian's PCRE2 and utf8proc are older (14,
// 15).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::tokenizer {

/// General categories; control characters with the White_Space property have one of their own.
enum Category : uint8_t {
  kCLu,
  kCLl,
  kCLt,
  kCLm,
  kCLo,
  kCMn,
  kCMc,
  kCMe,
  kCNd,
  kCNl,
  kCNo,
  kCPc,
  kCPd,
  kCPs,
  kCPe,
  kCPi,
  kCPf,
  kCPo,
  kCSm,
  kCSc,
  kCSk,
  kCSo,
  kCZs,
  kCZl,
  kCZp,
  kCCc,
  kCCcSpace,
  kCCf,
  kCCo,
  kCCs,
  kCCn,
  kCategoryCount
};

/// A set of categories, one bit each.
using CategorySet = uint32_t;
constexpr CategorySet category_bit(Category category) { return CategorySet{1} << category; }
template <class... Categories>
constexpr CategorySet categories(Categories... all) {
  return (category_bit(all) | ...);
}
inline constexpr CategorySet kLetter = categories(kCLu, kCLl, kCLt, kCLm, kCLo);
inline constexpr CategorySet kMark = categories(kCMn, kCMc, kCMe);
inline constexpr CategorySet kNumber = categories(kCNd, kCNl, kCNo);
inline constexpr CategorySet kPunctuation = categories(kCPc, kCPd, kCPs, kCPe, kCPi, kCPf, kCPo);
inline constexpr CategorySet kSymbol = categories(kCSm, kCSc, kCSk, kCSo);
inline constexpr CategorySet kSpace = categories(kCZs, kCZl, kCZp, kCCcSpace);  // the White_Space property
inline constexpr CategorySet kOther = categories(kCCc, kCCcSpace, kCCf, kCCo, kCCs, kCCn);

/// "L", "Lu", "Nd", ... as in \p{...}; nullopt for other names.
std::optional<CategorySet> categories_named(std::string_view name);

/// Code points in blocks of 256; equal blocks are stored once (40 KB in all).
class CategoryTable final {
 public:
  static const CategoryTable& get();  // thread-safe
  Category at(char32_t code_point) const {
    if (code_point > 0x10FFFF) return kCCn;
    return static_cast<Category>(blocks_[block_of_[code_point >> 8]][code_point & 0xFF]);
  }
  bool in(char32_t code_point, CategorySet set) const { return ((set >> at(code_point)) & 1u) != 0; }

 private:
  CategoryTable();
  std::array<uint16_t, 0x1100> block_of_{};
  std::vector<std::array<uint8_t, 256>> blocks_;
};

struct CodePointRange {
  char32_t first;
  char32_t last;  ///< inclusive
};
/// The members of `set`, ascending. newer_only: those that Unicode 14 did not have there.
std::vector<CodePointRange> ranges_of(CategorySet set, bool newer_only);

/// True for marks and parts of compositions that came after the tables of the library's normaliser: it leaves them
/// alone.
bool is_inert_in_normalisation(char32_t code_point);

}  // namespace lockstep::tokenizer
