// SPDX-License-Identifier: Apache-2.0
// Tokenizer::from_json and Tokenizer::load.
#include <fstream>
#include <system_error>

#include "tokenizer/tokenizer_json.h"

namespace lockstep::tokenizer {
namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;  // the largest known are near 35 MB

Expected<AddedToken> read_added_token(const Field& field) {
  LOCKSTEP_RETURN_IF_ERROR(field.expect_object());
  AddedToken token;
  LOCKSTEP_ASSIGN_OR_RETURN(const int64_t id, field.at("id").integer());
  if (id < 0 || id > kMaxTokenId) return field.at("id").wrong(fmt::format("an id in 0..{}", kMaxTokenId));
  token.id = static_cast<int32_t>(id);
  LOCKSTEP_ASSIGN_OR_RETURN(token.content, field.at("content").string());
  LOCKSTEP_ASSIGN_OR_RETURN(token.single_word, field.at("single_word").boolean(false));
  LOCKSTEP_ASSIGN_OR_RETURN(token.lstrip, field.at("lstrip").boolean(false));
  LOCKSTEP_ASSIGN_OR_RETURN(token.rstrip, field.at("rstrip").boolean(false));
  LOCKSTEP_ASSIGN_OR_RETURN(token.special, field.at("special").boolean(false));
  LOCKSTEP_ASSIGN_OR_RETURN(token.normalized, field.at("normalized").boolean(!token.special));
  return token;
}

Status read_added_tokens(const Field& field, const StringTable& vocabulary, std::vector<AddedToken>& out) {
  if (field.is_null()) return {};
  LOCKSTEP_RETURN_IF_ERROR(field.expect_array());
  for (size_t i = 0; i < field.size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(AddedToken token, read_added_token(field.at(i)));
    const auto known = vocabulary.find(token.content);
    const bool taken = vocabulary.has(token.id) && vocabulary.at(token.id) != token.content;
    if ((known && *known != token.id) || taken) {
      return error(StatusCode::kDataLoss, "{}: {:?} has id {}, but in the vocabulary {}", field.at(i).where(),
                   token.content, token.id,
                   taken ? fmt::format("that is {:?}", vocabulary.at(token.id)) : fmt::format("it is {}", *known));
    }
    out.push_back(std::move(token));
  }
  return {};
}

void set_token_bytes(TokenizerImpl& impl, const std::vector<AddedToken>& added, const DecoderRules& rules) {
  for (int32_t id = 0; id < impl.vocabulary->size(); ++id) {
    if (impl.vocabulary->has(id)) impl.token_bytes.set(id, rules.bytes_of(impl.vocabulary->at(id)), false);
  }
  // As in the library (0.23), an added token's text is its normalised content.
  for (const AddedToken& token : added) impl.token_bytes.set(token.id, rules.bytes_of(token.content), token.special);
}

Expected<std::unique_ptr<TokenizerImpl>> build(const Field& root) {
  LOCKSTEP_RETURN_IF_ERROR(root.expect_object());
  auto impl = std::make_unique<TokenizerImpl>();
  bool byte_level = false;
  std::vector<AddedToken> added;
  LOCKSTEP_RETURN_IF_ERROR(read_normalizer(root.at("normalizer"), impl->normalizers));
  LOCKSTEP_RETURN_IF_ERROR(read_pre_tokenizer(root.at("pre_tokenizer"), impl->pre_tokenizers, byte_level));
  LOCKSTEP_ASSIGN_OR_RETURN(const DecoderRules rules, read_decoder(root.at("decoder")));
  if (rules.byte_level != byte_level)
    return root.at("decoder").unsupported("ByteLevel must be in pre_tokenizer and decoder, or in none");
  LOCKSTEP_RETURN_IF_ERROR(read_post_processor(root.at("post_processor"), impl->prefix_ids, impl->suffix_ids));
  LOCKSTEP_RETURN_IF_ERROR(read_model(root.at("model"), byte_level, *impl));
  LOCKSTEP_RETURN_IF_ERROR(read_added_tokens(root.at("added_tokens"), *impl->vocabulary, added));
  if (const Status status = TokenizerBuilder::set_added_tokens(*impl, added); !status.ok()) {
    return unexpected(status.with_context(root.at("added_tokens").where()));
  }
  set_token_bytes(*impl, added, rules);
  impl->decode_start = rules.start;
  return impl;
}

Expected<std::string> read_file(const std::filesystem::path& path) {
  std::error_code code;
  const uintmax_t size = std::filesystem::file_size(path, code);
  if (code) return error(StatusCode::kNotFound, "{}: {}", path.string(), code.message());
  if (size > kMaxFileBytes)
    return error(StatusCode::kDataLoss, "{}: {} bytes, at most {}", path.string(), size, kMaxFileBytes);
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    return error(StatusCode::kDataLoss, "{}: can't read {} bytes", path.string(), size);
  }
  return text;
}

Status read_optional(const std::filesystem::path& path, std::string& out) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return {};
  LOCKSTEP_ASSIGN_OR_RETURN(out, read_file(path));
  return {};
}

}  // namespace

Expected<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(const TokenizerJson& texts) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Json json, parse_json(texts.tokenizer_json, texts.name));
  LOCKSTEP_ASSIGN_OR_RETURN(auto impl, build(Field(json, texts.name + ": ")));
  LOCKSTEP_RETURN_IF_ERROR(TokenizerBuilder::read_config(*impl, texts));
  return TokenizerBuilder::wrap(std::move(impl));
}

Expected<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::filesystem::path& dir_or_gguf) {
  std::error_code code;
  if (files::is_gguf(dir_or_gguf)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto file, files::GgufFile::open(dir_or_gguf));
    return from_gguf(file);
  }
  const bool is_directory = std::filesystem::is_directory(dir_or_gguf, code);
  const std::filesystem::path path = is_directory ? dir_or_gguf / "tokenizer.json" : dir_or_gguf;
  const std::filesystem::path directory = path.parent_path();
  TokenizerJson texts;
  texts.name = path.string();
  if (!std::filesystem::exists(path, code)) {
    return error(StatusCode::kNotFound, "{}: there is no tokenizer.json (and no GGUF file)", path.string());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(texts.tokenizer_json, read_file(path));
  LOCKSTEP_RETURN_IF_ERROR(read_optional(directory / "tokenizer_config.json", texts.tokenizer_config_json));
  LOCKSTEP_RETURN_IF_ERROR(read_optional(directory / "special_tokens_map.json", texts.special_tokens_map_json));
  LOCKSTEP_RETURN_IF_ERROR(read_optional(directory / "chat_template.jinja", texts.chat_template_jinja));
  return from_json(texts);
}

}  // namespace lockstep::tokenizer
