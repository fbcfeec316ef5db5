// SPDX-License-Identifier: Apache-2.0
// Tokenizer::from_gguf: the tokenizer.ggml.* keys. Format: docs/gguf.md of ggml; defaults: llama.cpp's llama-vocab.cpp.
#include <algorithm>

#include "tokenizer/bpe.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/gguf_pre.h"
#include "tokenizer/scored_pieces.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

class GgufReader final {
 public:
  explicit GgufReader(const files::GgufFile& file) : file_(file), impl_(std::make_unique<TokenizerImpl>()) {}

  Expected<std::unique_ptr<TokenizerImpl>> read() {
    const auto model = file_.find_string("tokenizer.ggml.model");
    if (!model) return wrong("model", "missing");
    LOCKSTEP_RETURN_IF_ERROR(read_tokens());
    if (*model == "gpt2") {
      LOCKSTEP_RETURN_IF_ERROR(build_byte_level());
    } else if (*model == "llama") {
      LOCKSTEP_RETURN_IF_ERROR(build_scored());
    } else {
      return error(StatusCode::kUnsupported, "{}: tokenizer.ggml.model is {:?}, supported are gpt2 and llama",
                   file_.path(), *model);
    }
    LOCKSTEP_RETURN_IF_ERROR(read_special_ids());
    LOCKSTEP_RETURN_IF_ERROR(read_added_tokens());
    read_templates();
    return std::move(impl_);
  }

 private:
  enum class Type : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

  template <class... Args>
  ErrorBuilder wrong(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    return error(StatusCode::kDataLoss, "{}: tokenizer.ggml.{}: {}", file_.path(), key,
                 fmt::format(format, std::forward<Args>(args)...));
  }

  Status read_tokens() {
    tokens_ = file_.find_strings("tokenizer.ggml.tokens");
    if (tokens_ == nullptr || tokens_->empty()) return wrong("tokens", "missing or empty");
    auto table = std::make_shared<StringTable>();
    for (size_t id = 0; id < tokens_->size(); ++id) {
      if (!is_valid_utf8((*tokens_)[id])) return wrong("tokens", "token {} is not UTF-8", id);
      if (const Status status = table->add(static_cast<int64_t>(id), (*tokens_)[id]); !status.ok()) {
        return wrong("tokens", "{}", status.message());
      }
    }
    impl_->vocabulary = std::move(table);
    types_.assign(tokens_->size(), Type::kNormal);
    const auto* types = file_.find_ints("tokenizer.ggml.token_type");
    if (types == nullptr) return {};
    if (types->size() != tokens_->size())
      return wrong("token_type", "{} values for {} tokens", types->size(), tokens_->size());
    for (size_t id = 0; id < types->size(); ++id) {
      const int64_t type = (*types)[id];
      if (type < 0 || type > 6) return wrong("token_type", "{} for token {}, expected 0..6", type, id);
      types_[id] = type == 0 ? Type::kNormal : static_cast<Type>(type);
    }
    return {};
  }

  Status build_byte_level() {
    const std::string name = file_.find_string("tokenizer.ggml.pre").value_or("default");
    const auto pre = gguf_pre_type(name);
    if (!pre) {
      return error(StatusCode::kUnsupported, "{}: tokenizer.ggml.pre is {:?}, supported are {}", file_.path(), name,
                   known_gguf_pre_types());
    }
    add_bos_ = pre->add_bos;
    if (pre->nfc) impl_->normalizers.push_back(make_unicode_normalizer(NormalForm::kNfc));
    for (const std::string_view regex : pre->regexes) {
      LOCKSTEP_ASSIGN_OR_RETURN(auto step, make_regex_split(regex, SplitBehavior::kIsolated, /*invert=*/false));
      impl_->pre_tokenizers.push_back(std::move(step));
    }
    BpeConfig config;
    config.byte_level = true;
    config.ignore_merges = pre->ignore_merges;
    config.byte_ids.fill(-1);
    auto pieces = std::make_shared<StringTable>();
    for (size_t id = 0; id < tokens_->size(); ++id) {
      const auto bytes = byte_level_bytes((*tokens_)[id]);
      // Only ordinary tokens are written in the byte alphabet; the others stand for themselves.
      const bool is_text = types_[id] == Type::kNormal || types_[id] == Type::kByte;
      if (is_text && bytes) {
        (void)pieces->add(static_cast<int64_t>(id), *bytes);  // the alphabet is one to one: never there twice
        if (bytes->size() == 1) config.byte_ids[static_cast<unsigned char>((*bytes)[0])] = static_cast<int32_t>(id);
      }
      set_bytes(id, is_text && bytes ? *bytes : (*tokens_)[id]);
    }
    LOCKSTEP_RETURN_IF_ERROR(read_merges(config.merges));
    config.pieces = std::move(pieces);
    impl_->model = std::make_unique<BpeModel>(std::move(config));
    return {};
  }

  Status read_merges(MergeTable& out) const {
    const auto* merges = file_.find_strings("tokenizer.ggml.merges");
    if (merges == nullptr) return wrong("merges", "missing");
    out.reserve(merges->size());
    std::string merged;
    for (size_t i = 0; i < merges->size(); ++i) {
      const std::string_view text = (*merges)[i];
      const size_t blank = text.find(' ', 1);
      if (blank == std::string_view::npos)
        return wrong("merges", "merge {} is {:?}, expected two tokens", i, printable(text));
      const std::string_view left = text.substr(0, blank);
      const std::string_view right = text.substr(blank + 1);
      merged.assign(left).append(right);
      const auto a = impl_->vocabulary->find(left);
      const auto b = impl_->vocabulary->find(right);
      const auto whole = impl_->vocabulary->find(merged);
      if (!a || !b || !whole) {
        return wrong("merges", "merge {} is {:?}, but {:?} is no token", i, printable(text),
                     printable(!a   ? left
                               : !b ? right
                                    : std::string_view(merged)));
      }
      out.put(*a, *b, static_cast<uint32_t>(i), *whole);
    }
    return {};
  }

  Status build_scored() {
    const auto* scores = file_.find_floats("tokenizer.ggml.scores");
    if (scores == nullptr) return wrong("scores", "missing");
    if (scores->size() != tokens_->size())
      return wrong("scores", "{} values for {} tokens", scores->size(), tokens_->size());
    add_bos_ = true;
    BpeConfig config;
    config.byte_fallback = true;
    config.fuse_unknown = false;
    config.byte_ids.fill(-1);
    std::vector<ScoredPiece> scored;
    for (size_t id = 0; id < tokens_->size(); ++id) {
      const std::string& token = (*tokens_)[id];
      const int value = types_[id] == Type::kByte ? byte_token_value(token) : -1;
      if (types_[id] == Type::kByte && value < 0)
        return wrong("tokens", "byte token {} is {:?}, expected <0xHH>", id, token);
      if (value >= 0) config.byte_ids[static_cast<size_t>(value)] = static_cast<int32_t>(id);
      if (types_[id] == Type::kNormal) scored.push_back({token, static_cast<int32_t>(id), (*scores)[id]});
      set_bytes(id, value >= 0                    ? std::string(1, static_cast<char>(value))
                    : types_[id] == Type::kNormal ? with_spaces(token)
                                                  : token);
    }
    auto pieces = std::make_shared<StringTable>();
    if (const Status status = merges_from_scores(scored, *pieces, config.merges); !status.ok()) {
      return status.with_context(file_.path());
    }
    config.pieces = std::move(pieces);
    LOCKSTEP_ASSIGN_OR_RETURN(config.unknown_id, read_id("unknown_token_id"));
    impl_->model = std::make_unique<BpeModel>(std::move(config));
    if (file_.find_bool("tokenizer.ggml.add_space_prefix").value_or(true)) {
      impl_->normalizers.push_back(make_prepend(" "));
      impl_->decode_start = DecodeStart::kOneSpace;
    }
    impl_->normalizers.push_back(make_replace(" ", std::string(kSpaceMark)));
    return {};
  }

  Expected<std::optional<int32_t>> read_id(std::string_view key) const {
    const auto id = file_.find_int("tokenizer.ggml." + std::string(key));
    if (!id) return std::nullopt;
    if (*id < 0 || *id >= static_cast<int64_t>(tokens_->size())) {
      return wrong(key, "{}, but there are {} tokens", *id, tokens_->size());
    }
    return static_cast<int32_t>(*id);
  }

  Status read_special_ids() {
    LOCKSTEP_ASSIGN_OR_RETURN(impl_->bos_id, read_id("bos_token_id"));
    LOCKSTEP_ASSIGN_OR_RETURN(impl_->eos_id, read_id("eos_token_id"));
    LOCKSTEP_ASSIGN_OR_RETURN(const auto unknown, read_id("unknown_token_id"));
    LOCKSTEP_ASSIGN_OR_RETURN(const auto padding, read_id("padding_token_id"));
    LOCKSTEP_ASSIGN_OR_RETURN(const auto turn_end, read_id("eot_token_id"));
    const auto name = [&](const char* key, const std::optional<int32_t>& id) {
      if (id) impl_->special_tokens[key] = (*tokens_)[static_cast<size_t>(*id)];
    };
    name("bos_token", impl_->bos_id);
    name("eos_token", impl_->eos_id);
    name("unk_token", unknown);
    name("pad_token", padding);
    // Some converters leave these three as ordinary tokens; text never contains them.
    for (const auto& id : {impl_->bos_id, impl_->eos_id, turn_end}) {
      if (id && types_[static_cast<size_t>(*id)] == Type::kNormal) types_[static_cast<size_t>(*id)] = Type::kControl;
    }
    if (impl_->bos_id && file_.find_bool("tokenizer.ggml.add_bos_token").value_or(add_bos_))
      impl_->prefix_ids = {*impl_->bos_id};
    if (impl_->eos_id && file_.find_bool("tokenizer.ggml.add_eos_token").value_or(false))
      impl_->suffix_ids = {*impl_->eos_id};
    return {};
  }

  Status read_added_tokens() {
    std::vector<AddedToken> added;
    for (size_t id = 0; id < tokens_->size(); ++id) {
      const Type type = types_[id];
      if (type != Type::kControl && type != Type::kUserDefined && type != Type::kUnknown) continue;
      AddedToken token;
      token.content = (*tokens_)[id];
      token.id = static_cast<int32_t>(id);
      token.special = type != Type::kUserDefined;
      impl_->token_bytes.set(token.id, token.content, token.special);
      added.push_back(std::move(token));
    }
    return TokenizerBuilder::set_added_tokens(*impl_, added).with_context(file_.path());
  }

  void read_templates() {
    static constexpr std::string_view kKey = "tokenizer.chat_template";
    if (auto text = file_.find_string(kKey)) impl_->chat_templates[""] = std::move(*text);
    const auto* names = file_.find_strings("tokenizer.chat_templates");
    for (size_t i = 0; names != nullptr && i < names->size(); ++i) {
      auto text = file_.find_string(std::string(kKey) + "." + (*names)[i]);
      if (text) impl_->chat_templates[(*names)[i]] = std::move(*text);
    }
  }

  // Padding of the embedding has names like [PAD151936] but is no text.
  void set_bytes(size_t id, std::string_view bytes) {
    impl_->token_bytes.set(static_cast<int32_t>(id), types_[id] == Type::kUnused ? std::string_view() : bytes, false);
  }

  static std::string with_spaces(std::string_view token) {
    std::string out;
    for (size_t pos = 0; pos < token.size();) {
      const bool mark = token.substr(pos).starts_with(kSpaceMark);
      out.push_back(mark ? ' ' : token[pos]);
      pos += mark ? kSpaceMark.size() : 1;
    }
    return out;
  }

  static std::string printable(std::string_view text) {
    std::string out;
    append_replacing_invalid(out, text.substr(0, 80), /*keep_truncated=*/false);
    return out;
  }

  const files::GgufFile& file_;
  std::unique_ptr<TokenizerImpl> impl_;
  const std::vector<std::string>* tokens_ = nullptr;
  std::vector<Type> types_;
  bool add_bos_ = false;
};

}  // namespace

Expected<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const std::shared_ptr<const files::GgufFile>& file) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto impl, GgufReader(*file).read());
  return TokenizerBuilder::wrap(std::move(impl));
}

}  // namespace lockstep::tokenizer
