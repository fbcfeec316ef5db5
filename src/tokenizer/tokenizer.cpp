// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenizer.h"

#include <algorithm>

#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {

void TokenBytes::set(int32_t id, std::string_view bytes, bool special) {
  if (id >= size()) entries_.resize(static_cast<size_t>(id) + 1);
  entries_[static_cast<size_t>(id)] = {pool_.size(), static_cast<uint32_t>(bytes.size()), special};
  pool_.append(bytes);
}

std::string_view TokenBytes::at(int32_t id) const {
  if (id < 0 || id >= size()) return {};
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(pool_).substr(entry.offset, entry.size);
}

bool TokenBytes::is_special(int32_t id) const {
  return id >= 0 && id < size() && entries_[static_cast<size_t>(id)].special;
}

Status TokenizerBuilder::set_added_tokens(TokenizerImpl& impl, std::vector<AddedToken>& tokens) {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    LOCKSTEP_RETURN_IF_ERROR(impl.added_contents.add(token.id, token.content));
    if (token.normalized) {
      NormalizedText content{token.content, {}};
      for (const auto& step : impl.normalizers) LOCKSTEP_RETURN_IF_ERROR(step->apply(content));
      token.content = std::move(content.text);
    }
    (token.normalized ? normalized : raw).push_back(token);
  }
  impl.raw_tokens = AddedTokenMatcher(std::move(raw));
  impl.normalized_tokens = AddedTokenMatcher(std::move(normalized));
  return {};
}

namespace {

// The part of `ranges` within [begin, end), counted from begin.
std::vector<ByteRange> clip(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  std::vector<ByteRange> out;
  auto range = std::partition_point(ranges.begin(), ranges.end(), [&](const ByteRange& r) { return r.end <= begin; });
  for (; range != ranges.end() && range->begin < end; ++range) {
    out.push_back({std::max(range->begin, begin) - begin, std::min(range->end, end) - begin});
  }
  return out;
}

void replace_invalid(NormalizedText& target) {
  Rewriter rewriter(target);
  const std::string_view text = target.text;
  for (size_t pos = 0; (pos += valid_utf8_prefix(text.substr(pos))) < text.size();) {
    bool truncated = false;
    const size_t bad = invalid_utf8_size(text.substr(pos), truncated);
    rewriter.keep_until(pos);
    rewriter.replace(bad, "\xEF\xBF\xBD");
    pos += bad;
  }
  rewriter.finish();
}

}  // namespace

Status TokenizerImpl::encode(std::string_view text, std::span<const ByteRange> literal, bool parse,
                             std::vector<int32_t>& out) const {
  std::vector<Segment> segments;
  if (parse) {
    raw_tokens.split(text, literal, segments);
  } else if (!text.empty()) {
    segments.push_back({{0, text.size()}, -1});
  }
  out.reserve(out.size() + text.size() / 4 + 8);
  auto scratch = take_scratch();
  Status status;
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      out.push_back(segment.id);
      continue;
    }
    const auto [begin, end] = segment.range;
    const std::vector<ByteRange> inner =
        normalized_tokens.empty() ? std::vector<ByteRange>() : clip(literal, begin, end);
    status = encode_plain(text.substr(begin, end - begin), inner, parse, begin == 0, *scratch, out);
    if (!status.ok()) break;
  }
  give_back(std::move(scratch));
  return status;
}

Status TokenizerImpl::encode_plain(std::string_view text, std::span<const ByteRange> literal, bool parse,
                                   bool starts_text, EncodeScratch& scratch, std::vector<int32_t>& out) const {
  NormalizedText changed;
  bool is_changed = false;
  for (const auto& step : normalizers) {
    if (step->leaves(text)) continue;
    if (!is_changed) changed = {std::string(text), {literal.begin(), literal.end()}};
    is_changed = true;
    LOCKSTEP_RETURN_IF_ERROR(step->apply(changed));
    text = changed.text;
    literal = changed.literal;
  }
  if (!parse || normalized_tokens.empty()) return encode_pieces(text, starts_text, scratch, out);
  std::vector<Segment> segments;
  normalized_tokens.split(text, literal, segments);
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      out.push_back(segment.id);
      continue;
    }
    const auto [begin, end] = segment.range;
    LOCKSTEP_RETURN_IF_ERROR(encode_pieces(text.substr(begin, end - begin), starts_text && begin == 0, scratch, out));
  }
  return {};
}

Status TokenizerImpl::encode_pieces(std::string_view text, bool starts_text, EncodeScratch& scratch,
                                    std::vector<int32_t>& out) const {
  Pieces& pieces = scratch.pieces;
  pieces.reset(text, starts_text);
  for (const auto& step : pre_tokenizers) LOCKSTEP_RETURN_IF_ERROR(step->split(pieces));
  for (const ByteRange& range : pieces.ranges) {
    model->encode(pieces.text.substr(range.begin, range.end - range.begin), *scratch.model, out);
  }
  return {};
}

std::unique_ptr<EncodeScratch> TokenizerImpl::take_scratch() const {
  {
    const std::lock_guard lock(scratch_mutex_);
    if (!idle_scratches_.empty()) {
      auto scratch = std::move(idle_scratches_.back());
      idle_scratches_.pop_back();
      return scratch;
    }
  }
  auto scratch = std::make_unique<EncodeScratch>();
  scratch->model = model->make_scratch();
  return scratch;
}

void TokenizerImpl::give_back(std::unique_ptr<EncodeScratch> scratch) const {
  const std::lock_guard lock(scratch_mutex_);
  if (idle_scratches_.size() < kMaxIdleScratches) idle_scratches_.push_back(std::move(scratch));
}

std::optional<int32_t> TokenizerImpl::token_to_id(std::string_view content) const {
  if (const auto id = added_contents.find(content)) return id;
  return vocabulary->find(content);
}

std::string_view TokenizerImpl::decoded_bytes(int32_t id, bool skip_special, bool& first, std::string& buffer) const {
  if (skip_special && token_bytes.is_special(id)) return {};
  std::string_view bytes = token_bytes.at(id);
  if (!first || bytes.empty()) return bytes;
  first = false;
  if (decode_start == DecodeStart::kOneSpace && bytes.starts_with(' ')) bytes.remove_prefix(1);
  if (decode_start != DecodeStart::kFirstTokenSpaces) return bytes;
  buffer = bytes;
  std::erase(buffer, ' ');
  return buffer;
}

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerImpl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Expected<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  NormalizedText valid;
  if (!is_valid_utf8(text)) {
    valid.text = text;
    replace_invalid(valid);
    text = valid.text;
  }
  std::vector<int32_t> ids;
  if (options.add_special_tokens) ids = impl_->prefix_ids;
  LOCKSTEP_RETURN_IF_ERROR(impl_->encode(text, {}, options.parse_special, ids));
  if (options.add_special_tokens) ids.insert(ids.end(), impl_->suffix_ids.begin(), impl_->suffix_ids.end());
  return ids;
}

Expected<std::vector<int32_t>> Tokenizer::encode_with_literal_ranges(std::string_view text,
                                                                     std::span<const ByteRange> literal) const {
  size_t last_end = 0;
  for (const ByteRange& range : literal) {
    if (range.begin < last_end || range.end < range.begin || range.end > text.size()) {
      return invalid_argument("literal range {}..{} of a text of {} bytes, after one that ends at {}", range.begin,
                              range.end, text.size(), last_end);
    }
    last_end = range.end;
  }
  NormalizedText valid;
  if (!is_valid_utf8(text)) {
    valid = {std::string(text), {literal.begin(), literal.end()}};
    replace_invalid(valid);
    text = valid.text;
    literal = valid.literal;
  }
  std::vector<int32_t> ids;
  LOCKSTEP_RETURN_IF_ERROR(impl_->encode(text, literal, /*parse=*/true, ids));
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  std::string buffer;
  bool first = true;
  for (const int32_t id : ids) bytes.append(impl_->decoded_bytes(id, skip_special_tokens, first, buffer));
  if (is_valid_utf8(bytes)) return bytes;
  std::string text;
  append_replacing_invalid(text, bytes, /*keep_truncated=*/false);
  return text;
}

std::string Tokenizer::token_bytes(int32_t id) const { return std::string(impl_->token_bytes.at(id)); }
bool Tokenizer::is_special(int32_t id) const { return impl_->token_bytes.is_special(id); }
int32_t Tokenizer::vocab_size() const { return impl_->token_bytes.size(); }
std::optional<int32_t> Tokenizer::bos_id() const { return impl_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return impl_->eos_id; }
std::optional<int32_t> Tokenizer::token_to_id(std::string_view content) const { return impl_->token_to_id(content); }
const std::map<std::string, std::string>& Tokenizer::special_tokens() const { return impl_->special_tokens; }

std::optional<std::string> Tokenizer::chat_template(std::string_view name) const {
  const auto found = impl_->chat_templates.find(name);
  if (found == impl_->chat_templates.end()) return std::nullopt;
  return found->second;
}

}  // namespace lockstep::tokenizer
