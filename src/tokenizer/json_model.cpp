// SPDX-License-Identifier: Apache-2.0
// "model" of tokenizer.json.
#include "tokenizer/bpe.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/unigram.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

Expected<std::shared_ptr<const StringTable>> read_vocabulary(const Field& field) {
  LOCKSTEP_RETURN_IF_ERROR(field.expect_object());
  auto table = std::make_shared<StringTable>();
  for (const auto& [text, id] : field.json().items()) {
    if (!id.is_number_integer()) return Field(id, fmt::format("{}[{:?}]", field.where(), text)).wrong("an integer");
    if (const Status status = table->add(id.get<int64_t>(), text); !status.ok())
      return unexpected(status.with_context(field.where()));
  }
  if (table->count() == 0) return field.wrong("a vocabulary that is not empty");
  return table;
}

struct MergePair {
  std::string_view left, right;
};

// ["a", "b"], or "a b" in files before 2024.
Expected<MergePair> read_merge(const Field& list, size_t index) {
  const Json& item = list.json()[index];
  if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
    return MergePair{item[0].get_ref<const std::string&>(), item[1].get_ref<const std::string&>()};
  }
  if (item.is_string()) {
    const std::string_view text = item.get_ref<const std::string&>();
    const size_t blank = text.find(' ');
    if (blank != std::string_view::npos && text.find(' ', blank + 1) == std::string_view::npos) {
      return MergePair{text.substr(0, blank), text.substr(blank + 1)};
    }
  }
  return list.at(index).wrong("two tokens");
}

Status read_merges(const Field& field, const StringTable& vocabulary, MergeTable& out) {
  LOCKSTEP_RETURN_IF_ERROR(field.expect_array());
  out.reserve(field.size());
  std::string merged;
  for (size_t i = 0; i < field.size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const MergePair pair, read_merge(field, i));
    merged.assign(pair.left).append(pair.right);
    const auto left = vocabulary.find(pair.left);
    const auto right = vocabulary.find(pair.right);
    const auto whole = vocabulary.find(merged);
    if (!left || !right || !whole) {
      return error(StatusCode::kDataLoss, "{}: {:?} is not in the vocabulary", field.at(i).where(),
                   !left    ? pair.left
                   : !right ? pair.right
                            : std::string_view(merged));
    }
    out.put(*left, *right, static_cast<uint32_t>(i), *whole);
  }
  return {};
}

Status refuse_options(const Field& field) {
  const Field dropout = field.at("dropout");
  if (!dropout.is_null() && dropout.json() != 0) return dropout.unsupported("random merges are not supported");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string value, field.at(name).string_or(""));
    if (!value.empty()) return field.at(name).unsupported("only null or \"\" is supported");
  }
  return {};
}

// Tokens by the bytes that they stand for.
std::shared_ptr<const StringTable> by_bytes(const StringTable& vocabulary) {
  auto table = std::make_shared<StringTable>();
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    // One outside the alphabet can't be a piece. The alphabet is one to one, so nothing can be there twice.
    if (const auto bytes = byte_level_bytes(vocabulary.at(id))) (void)table->add(id, *bytes);
  }
  return table;
}

void set_alphabet_ids(const StringTable& vocabulary, std::array<int32_t, 256>& ids) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string spelling;
    append_utf8(spelling, byte_level_char(static_cast<unsigned char>(byte)));
    ids[byte] = vocabulary.find(spelling).value_or(-1);
  }
}

void set_byte_token_ids(const StringTable& vocabulary, std::array<int32_t, 256>& ids) {
  for (unsigned byte = 0; byte < 256; ++byte) ids[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
}

Status read_bpe(const Field& field, bool byte_level, TokenizerImpl& impl) {
  LOCKSTEP_RETURN_IF_ERROR(refuse_options(field));
  LOCKSTEP_ASSIGN_OR_RETURN(impl.vocabulary, read_vocabulary(field.at("vocab")));
  BpeConfig config;
  config.byte_level = byte_level;
  if (byte_level) {
    set_alphabet_ids(*impl.vocabulary, config.byte_ids);
  } else {
    set_byte_token_ids(*impl.vocabulary, config.byte_ids);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(config.byte_fallback, field.at("byte_fallback").boolean(false));
  LOCKSTEP_ASSIGN_OR_RETURN(config.fuse_unknown, field.at("fuse_unk").boolean(false));
  LOCKSTEP_ASSIGN_OR_RETURN(config.ignore_merges, field.at("ignore_merges").boolean(false));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string unknown, field.at("unk_token").string_or(""));
  if (!unknown.empty()) {
    config.unknown_id = impl.vocabulary->find(unknown);
    if (!config.unknown_id) return field.at("unk_token").wrong("a token of the vocabulary");
  }
  LOCKSTEP_RETURN_IF_ERROR(read_merges(field.at("merges"), *impl.vocabulary, config.merges));
  if (!byte_level) {
    config.pieces = impl.vocabulary;
  } else if (config.ignore_merges) {
    config.pieces = by_bytes(*impl.vocabulary);
  }
  impl.model = std::make_unique<BpeModel>(std::move(config));
  return {};
}

Expected<int32_t> read_unknown_id(const Field& field, size_t count) {
  if (field.is_null()) return field.unsupported("a unigram model without unknown token is not supported");
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t id, field.integer());
  if (id < 0 || static_cast<uint64_t>(id) >= count) return field.wrong(fmt::format("an id below {}", count));
  return static_cast<int32_t>(id);
}

Status read_unigram(const Field& field, bool byte_level, TokenizerImpl& impl) {
  if (byte_level) return field.at("type").unsupported("not together with ByteLevel");
  const Field vocab = field.at("vocab");
  LOCKSTEP_RETURN_IF_ERROR(vocab.expect_array());
  UnigramConfig config;
  auto table = std::make_shared<StringTable>();
  for (size_t id = 0; id < vocab.size(); ++id) {
    const Json& item = vocab.json()[id];
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number()) {
      return vocab.at(id).wrong("[token, score]");
    }
    const Status status = table->add(static_cast<int64_t>(id), item[0].get_ref<const std::string&>());
    if (!status.ok()) return status.with_context(vocab.where());
    config.scores.push_back(item[1].get<double>());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(config.unknown_id, read_unknown_id(field.at("unk_id"), vocab.size()));
  LOCKSTEP_ASSIGN_OR_RETURN(config.byte_fallback, field.at("byte_fallback").boolean(false));
  set_byte_token_ids(*table, config.byte_ids);
  impl.vocabulary = config.pieces = std::move(table);
  impl.model = std::make_unique<UnigramModel>(std::move(config));
  return {};
}

}  // namespace

Status read_model(const Field& field, bool byte_level, TokenizerImpl& impl) {
  LOCKSTEP_RETURN_IF_ERROR(field.expect_object());
  // Files of 2019 and 2020 have no type; they are BPE if there are merges.
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string type,
                            field.at("type").string_or(field.at("merges").is_null() ? "" : "BPE"));
  if (type == "Unigram") return read_unigram(field, byte_level, impl);
  if (type == "BPE") return read_bpe(field, byte_level, impl);
  return field.at("type").unsupported("a model that Lockstep does not have");
}

}  // namespace lockstep::tokenizer
