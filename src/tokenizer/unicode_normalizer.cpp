// SPDX-License-Identifier: Apache-2.0
// NFC and its relatives, by utf8proc. Only stretches around characters that can change are looked at, so that most
// texts pass with a table lookup a character, and the sort by combining class is ours, because utf8proc's is quadratic.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "tokenizer/normalizer.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

bool composes(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }
bool is_compatible(NormalForm form) { return form == NormalForm::kNfkc || form == NormalForm::kNfkd; }

utf8proc_option_t option(int value) { return static_cast<utf8proc_option_t>(value); }

using Decomposition = std::array<utf8proc_int32_t, 32>;  // the longest has 18

// Appends the full decomposition of one code point.
void decompose(char32_t code_point, NormalForm form, std::vector<utf8proc_int32_t>& out) {
  Decomposition buffer;
  const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (is_compatible(form) ? UTF8PROC_COMPAT : 0);
  int last_boundary_class = 0;
  const utf8proc_ssize_t size =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), buffer.data(),
                              static_cast<utf8proc_ssize_t>(buffer.size()), option(options), &last_boundary_class);
  if (size <= 0 || size > static_cast<utf8proc_ssize_t>(buffer.size())) {
    out.push_back(static_cast<utf8proc_int32_t>(code_point));
  } else {
    out.insert(out.end(), buffer.begin(), buffer.begin() + size);
  }
}

// Puts canonically ordered decompositions together again.
void compose(std::vector<utf8proc_int32_t>& code_points) {
  const utf8proc_ssize_t size =
      utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
                               option(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size >= 0) code_points.resize(static_cast<size_t>(size));
}

int combining_class(utf8proc_int32_t code_point) { return utf8proc_get_property(code_point)->combining_class; }

bool is_hangul_vowel_or_final(char32_t c) { return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2); }
bool is_hangul_syllable(char32_t c) { return c >= 0xAC00 && c <= 0xD7A3; }

// One bit a code point: can it change, or change what stands before it?
class ActiveTable final {
 public:
  explicit ActiveTable(NormalForm form) : bits_(kEnd / 64) {
    std::vector<utf8proc_int32_t> parts;
    for (char32_t c = 0x80; c < kEnd; ++c) {
      if (is_inert_in_normalisation(c)) continue;
      if (combining_class(static_cast<utf8proc_int32_t>(c)) != 0 || is_hangul_vowel_or_final(c)) set(c);
      if (composes(form) && is_hangul_syllable(c)) continue;
      parts.clear();
      decompose(c, NormalForm::kNfd, parts);
      for (size_t i = 1; composes(form) && i < parts.size(); ++i) set(static_cast<char32_t>(parts[i]));
      parts.clear();
      decompose(c, form, parts);
      if (composes(form)) compose(parts);
      if (parts.size() != 1 || parts[0] != static_cast<utf8proc_int32_t>(c)) set(c);
    }
  }
  bool at(char32_t c) const { return c < kEnd && ((bits_[c / 64] >> (c % 64)) & 1u) != 0; }

 private:
  static constexpr char32_t kEnd = 0x30000;  // nothing above has a decomposition or a combining class
  void set(char32_t c) {
    if (c < kEnd && !is_inert_in_normalisation(c)) bits_[c / 64] |= uint64_t{1} << (c % 64);
  }
  std::vector<uint64_t> bits_;
};

// Made once a form: about 10 ms.
const ActiveTable& active_table(NormalForm form) {
  constexpr size_t kForms = 4;
  static std::array<std::once_flag, kForms> made;
  static std::array<std::optional<ActiveTable>, kForms> tables;
  const auto i = static_cast<size_t>(form);
  std::call_once(made[i], [&] { tables[i].emplace(form); });
  return *tables[i];
}

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form), active_(active_table(form)) {}

  bool leaves(std::string_view text) const override { return next_active(text, 0) == text.size(); }

  Status apply(NormalizedText& target) const override {
    const std::string_view text = target.text;
    Rewriter rewriter(target);
    std::string replacement;
    for (size_t pos = 0; (pos = next_active(text, pos)) < text.size();) {
      const size_t begin = with_base(text, pos);
      const size_t end = end_of_active(text, pos);
      replacement = normalize(text.substr(begin, end - begin));
      if (replacement != text.substr(begin, end - begin)) {
        rewriter.keep_until(begin);
        rewriter.replace(end - begin, replacement);
      }
      pos = end;
    }
    rewriter.finish();
    return {};
  }

 private:
  size_t next_active(std::string_view text, size_t pos) const {
    while (pos < text.size()) {
      if (static_cast<unsigned char>(text[pos]) < 0x80) {
        ++pos;
        continue;
      }
      const Utf8Char c = utf8_at(text, pos);
      if (active_.at(c.code_point)) break;
      pos += c.size;
    }
    return pos;
  }

  // The character before may be what an active one composes with. It isn't active itself, so nothing reaches past it.
  size_t with_base(std::string_view text, size_t pos) const {
    if (pos == 0) return 0;
    const size_t before = utf8_previous(text, pos);
    return is_inert_in_normalisation(utf8_at(text, before).code_point) ? pos : before;
  }

  size_t end_of_active(std::string_view text, size_t pos) const {
    while (pos < text.size()) {
      const Utf8Char c = utf8_at(text, pos);
      if (!active_.at(c.code_point)) break;
      pos += c.size;
    }
    return pos;
  }

  std::string normalize(std::string_view text) const {
    std::vector<utf8proc_int32_t> buffer;
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char c = utf8_at(text, pos);
      decompose(c.code_point, form_, buffer);
      pos += c.size;
    }
    for (auto run = buffer.begin(); run != buffer.end();) {
      const auto is_mark = [](utf8proc_int32_t c) { return combining_class(c) != 0; };
      run = std::find_if(run, buffer.end(), is_mark);
      const auto end = std::find_if_not(run, buffer.end(), is_mark);
      std::stable_sort(run, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
      run = end;
    }
    if (composes(form_)) compose(buffer);
    std::string out;
    for (const utf8proc_int32_t c : buffer) append_utf8(out, static_cast<char32_t>(c));
    return out;
  }

  NormalForm form_;
  const ActiveTable& active_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_unicode_normalizer(NormalForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}

}  // namespace lockstep::tokenizer
