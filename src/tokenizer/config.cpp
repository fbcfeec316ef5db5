// SPDX-License-Identifier: Apache-2.0
// tokenizer_config.json, special_tokens_map.json and chat_template.jinja, as transformers reads them.
#include "tokenizer/json_fields.h"
#include "tokenizer/tokenizer_impl.h"

namespace lockstep::tokenizer {
namespace {

constexpr const char* kTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

// A token is a string, or an object with its text in "content".
Status read_special_tokens(const Field& root, std::map<std::string, std::string>& out) {
  LOCKSTEP_RETURN_IF_ERROR(root.expect_object());
  for (const char* name : kTokenNames) {
    Field value = root.at(name);
    if (value.is_null()) continue;
    if (value.json().is_object()) value = value.at("content");
    LOCKSTEP_ASSIGN_OR_RETURN(out[name], value.string());
  }
  return {};
}

// One template, or a list of {"name", "template"}.
Status read_templates(const Field& field, std::map<std::string, std::string, std::less<>>& out) {
  if (field.is_null()) return {};
  if (field.json().is_string()) {
    LOCKSTEP_ASSIGN_OR_RETURN(out[""], field.string());
    return {};
  }
  LOCKSTEP_RETURN_IF_ERROR(field.expect_array());
  for (size_t i = 0; i < field.size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string name, field.at(i).at("name").string());
    LOCKSTEP_ASSIGN_OR_RETURN(out[name == "default" ? "" : name], field.at(i).at("template").string());
  }
  return {};
}

}  // namespace

Status TokenizerBuilder::read_config(TokenizerImpl& impl, const TokenizerJson& texts) {
  const std::string place = std::filesystem::path(texts.name).parent_path().string();
  const auto name_of = [&](const char* file) { return place.empty() ? std::string(file) : place + "/" + file; };
  if (!texts.special_tokens_map_json.empty()) {
    const std::string name = name_of("special_tokens_map.json");
    LOCKSTEP_ASSIGN_OR_RETURN(const Json json, parse_json(texts.special_tokens_map_json, name));
    LOCKSTEP_RETURN_IF_ERROR(read_special_tokens(Field(json, name + ": "), impl.special_tokens));
  }
  if (!texts.tokenizer_config_json.empty()) {
    const std::string name = name_of("tokenizer_config.json");
    LOCKSTEP_ASSIGN_OR_RETURN(const Json json, parse_json(texts.tokenizer_config_json, name));
    const Field root(json, name + ": ");
    LOCKSTEP_RETURN_IF_ERROR(read_special_tokens(root, impl.special_tokens));
    LOCKSTEP_RETURN_IF_ERROR(read_templates(root.at("chat_template"), impl.chat_templates));
  }
  if (!texts.chat_template_jinja.empty()) impl.chat_templates[""] = texts.chat_template_jinja;
  const auto id_of = [&](const char* name) -> std::optional<int32_t> {
    const auto found = impl.special_tokens.find(name);
    if (found == impl.special_tokens.end()) return std::nullopt;
    return impl.token_to_id(found->second);
  };
  impl.bos_id = id_of("bos_token");
  impl.eos_id = id_of("eos_token");
  return {};
}

}  // namespace lockstep::tokenizer
