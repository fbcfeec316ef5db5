// SPDX-License-Identifier: Apache-2.0
#include "text/text_model.h"

#include <algorithm>
#include <utility>

#include "chat/messages.h"
#include "files/gguf.h"
#include "files/model_config.h"

namespace lockstep::text {

Expected<std::shared_ptr<const TextModel>> TextModel::load(const std::filesystem::path& model,
                                                           const TextModelOptions& options) {
  std::shared_ptr<TextModel> text(new TextModel());
  text->parse_special_in_content_ = options.parse_special_in_content;
  LOCKSTEP_ASSIGN_OR_RETURN(text->tokenizer_,
                            tokenizer::Tokenizer::load(options.tokenizer.empty() ? model : options.tokenizer));
  if (std::optional<std::string> source = text->tokenizer_->chat_template()) {
    LOCKSTEP_ASSIGN_OR_RETURN(text->chat_template_,
                              chat::ChatTemplate::parse(*std::move(source), text->tokenizer_->special_tokens()));
  }
  LOCKSTEP_RETURN_IF_ERROR(text->load_model_files(model));
  if (const auto eos = text->tokenizer_->eos_id()) text->end_token_ids_.push_back(*eos);
  std::sort(text->end_token_ids_.begin(), text->end_token_ids_.end());
  text->end_token_ids_.erase(std::unique(text->end_token_ids_.begin(), text->end_token_ids_.end()),
                             text->end_token_ids_.end());
  return text;
}

Status TextModel::load_model_files(const std::filesystem::path& model) {
  if (files::is_gguf(model)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto file, files::GgufFile::open(model));
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
      if (const auto id = file->find_int(key)) end_token_ids_.push_back(static_cast<int32_t>(*id));
    }
    return {};
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto generation, files::load_generation_config(model / "generation_config.json"));
  defaults_ = {generation.temperature, generation.top_p, generation.min_p, generation.repetition_penalty,
               generation.top_k};
  end_token_ids_ = generation.eos_token_ids;
  std::error_code ignored;
  if (end_token_ids_.empty() && std::filesystem::exists(model / "config.json", ignored)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto config, files::load_model_config(model / "config.json"));
    end_token_ids_ = config.eos_token_ids;
  }
  return {};
}

Expected<std::vector<int32_t>> TextModel::encode_prompt(std::string_view text, bool add_special_tokens) const {
  return tokenizer_->encode(text, {.parse_special = true, .add_special_tokens = add_special_tokens});
}

Expected<std::vector<int32_t>> TextModel::encode_chat(ChatInput input) const {
  if (chat_template_ == nullptr) return invalid_argument("the model has no chat template");
  LOCKSTEP_RETURN_IF_ERROR(chat::normalise_messages(input.messages));
  chat::RenderRequest request;
  request.messages = std::move(input.messages);
  request.tools = std::move(input.tools);
  request.add_generation_prompt = input.add_generation_prompt;
  request.continue_final_message = input.continue_final_message;
  request.chat_template_kwargs = std::move(input.chat_template_kwargs);
  LOCKSTEP_ASSIGN_OR_RETURN(const chat::Rendered rendered, chat_template_->render(request));
  std::vector<tokenizer::ByteRange> literal;
  if (!parse_special_in_content_) {
    literal.reserve(rendered.literal.size());
    for (const chat::ByteRange& range : rendered.literal) {
      literal.push_back({static_cast<size_t>(range.begin), static_cast<size_t>(range.end)});
    }
  }
  return tokenizer_->encode_with_literal_ranges(rendered.text, literal);
}

}  // namespace lockstep::text
