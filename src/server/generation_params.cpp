// SPDX-License-Identifier: Apache-2.0
#include "server/generation_params.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace lockstep::server {

namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxStops = 16;

void read_stop(FieldReader& reader, std::vector<std::string>& stop) {
  const Json* value = reader.get("stop");
  if (value == nullptr) return;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kMaxStops)
    return reader.fail("stop", fmt::format("has {} strings, at most {}", list.size(), kMaxStops));
  for (const Json& item : list) {
    if (!item.is_string()) return reader.fail("stop", "must be a string or an array of strings");
    if (item.get_ref<const std::string&>().empty()) return reader.fail("stop", "must not hold an empty string");
    stop.push_back(item.get<std::string>());
  }
}

void read_logit_bias(FieldReader& reader, int64_t vocab_size, std::vector<std::pair<int32_t, float>>& bias) {
  const Json* value = reader.get("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) return reader.fail("logit_bias", "must be an object of token id to bias");
  for (const auto& [key, item] : value->get_ref<const Json::object_t&>()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocab_size) {
      return reader.fail("logit_bias",
                         fmt::format("has the key {}, must be a token id in 0..{}", quote_text(key), vocab_size - 1));
    }
    if (!item.is_number() || !(item.get<double>() >= -100 && item.get<double>() <= 100)) {
      return reader.fail("logit_bias", fmt::format("of token {} must be a number in [-100, 100]", id));
    }
    bias.emplace_back(id, item.get<float>());
  }
  // "1" and "01" are one token: the later one would be added too.
  std::sort(bias.begin(), bias.end());
  const auto same =
      std::adjacent_find(bias.begin(), bias.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (same != bias.end()) reader.fail("logit_bias", fmt::format("names token {} twice", same->first));
}

void read_stream_options(FieldReader& reader, GenerationParams& params) {
  const Json* value = reader.get("stream_options");
  if (value == nullptr) return;
  if (!params.stream) return reader.fail("stream_options", "is only allowed with stream true");
  FieldReader options(*value, "stream_options.");
  options.boolean("include_usage", params.include_usage);
  options.boolean("continuous_usage_stats", params.continuous_usage);
  options.refuse("include_obfuscation", {false});
  if (const auto error = options.finish())
    reader.fail(error->param, error->message.substr(std::min(error->message.size(), error->param.size() + 1)));
}

void read_sampling(FieldReader& reader, const ModelInfo& info, request::SamplingParams& sampling) {
  const text::SamplingDefaults& defaults = info.defaults;
  sampling.temperature = defaults.temperature.value_or(1.0);
  sampling.top_p = defaults.top_p.value_or(1.0);
  sampling.top_k = defaults.top_k.value_or(0);
  sampling.min_p = defaults.min_p.value_or(0.0);
  sampling.repetition_penalty = defaults.repetition_penalty.value_or(1.0);
  reader.number("temperature", sampling.temperature, {0, 2});
  reader.number("top_p", sampling.top_p, {0, 1, true});
  reader.integer("top_k", sampling.top_k, -1, kMaxInt64);
  reader.number("min_p", sampling.min_p, {0, 1});
  reader.number("presence_penalty", sampling.presence_penalty, {-2, 2});
  reader.number("frequency_penalty", sampling.frequency_penalty, {-2, 2});
  reader.number("repetition_penalty", sampling.repetition_penalty, {0, 2, true});
  std::optional<int64_t> seed;
  reader.integer("seed", seed, std::numeric_limits<int64_t>::min(), kMaxInt64);
  if (seed) sampling.seed = static_cast<uint64_t>(*seed);
  read_logit_bias(reader, info.vocab_size, sampling.logit_bias);
  reader.integer("min_tokens", sampling.min_tokens, 0, kMaxInt32);
  reader.boolean("ignore_eos", sampling.ignore_eos);
  reader.integers("stop_token_ids", sampling.stop_token_ids, 0, info.vocab_size - 1);
  std::optional<int64_t> prompt_logprobs;
  reader.integer("prompt_logprobs", prompt_logprobs, 0, 20);
  if (prompt_logprobs) sampling.prompt_logprobs = static_cast<int>(*prompt_logprobs);
}

/// OpenAI's and vLLM's fields that have no behaviour here, or not yet.
void read_inert_fields(FieldReader& reader) {
  reader.accept("user", Json::value_t::string);
  reader.accept("metadata", Json::value_t::object);
  reader.accept("store", Json::value_t::boolean);
  reader.accept("service_tier", Json::value_t::string);
  reader.accept("prompt_cache_key", Json::value_t::string);
  reader.accept("safety_identifier", Json::value_t::string);
  reader.accept("request_id", Json::value_t::string);
  reader.refuse("response_format", {Json{{"type", "text"}}});
  reader.refuse("bad_words", {Json::array()});
  reader.refuse("spaces_between_special_tokens", {true});
  reader.refuse("use_beam_search", {false});
  reader.refuse("length_penalty", {1, 1.0});
  reader.refuse("return_tokens_as_token_ids", {false});
  reader.refuse("return_token_ids", {false});
  for (const char* name :
       {"structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
        "guided_decoding_backend", "guided_whitespace_pattern", "structural_tag", "allowed_token_ids",
        "truncate_prompt_tokens", "logits_processors", "kv_transfer_params", "vllm_xargs", "prompt_embeds"}) {
    reader.refuse(name);
  }
}

}  // namespace

GenerationParams read_generation_params(FieldReader& reader, const ModelInfo& info) {
  GenerationParams params;
  std::optional<std::string> model, cache_salt;
  reader.text("model", model);
  params.model = model.value_or("");
  if (model && model->empty()) reader.fail("model", "must not be empty");
  read_sampling(reader, info, params.sampling);
  reader.integer("max_tokens", params.max_tokens, 0, kMaxInt32);
  reader.integer("n", params.n, 1, info.max_choices);
  read_stop(reader, params.output.stop);
  reader.boolean("include_stop_str_in_output", params.output.include_stop_str_in_output);
  reader.boolean("skip_special_tokens", params.output.skip_special_tokens);
  params.output.min_tokens = params.sampling.min_tokens;
  reader.boolean("stream", params.stream);
  read_stream_options(reader, params);
  int64_t priority = 0;
  reader.integer("priority", priority, std::numeric_limits<int32_t>::min(), kMaxInt32);
  params.priority = static_cast<int32_t>(priority);
  reader.text("cache_salt", cache_salt);
  if (cache_salt && cache_salt->empty()) reader.fail("cache_salt", "must not be empty");
  params.cache_salt = cache_salt.value_or("");
  reader.number("timeout_s", params.timeout_s, {0, 1e9, true});
  read_inert_fields(reader);
  return params;
}

std::optional<ApiError> check_model(const std::string& model, const ModelInfo& info) {
  if (model.empty() || std::find(info.names.begin(), info.names.end(), model) != info.names.end()) return std::nullopt;
  ApiError error =
      api_error(Status(StatusCode::kNotFound, fmt::format("the model {} does not exist; this server has {}",
                                                          quote_text(model), quote_text(info.names.front()))));
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

ApiResult<int64_t> resolve_max_tokens(const GenerationParams& params, const ModelInfo& info, int64_t prompt_tokens,
                                      int64_t absent, const std::string& prompt_field) {
  if (prompt_tokens == 0)
    return tl::unexpected(bad_request(prompt_field, fmt::format("{} has no tokens", prompt_field)));
  const int64_t room = info.max_model_len - prompt_tokens;
  const bool generates = params.max_tokens.value_or(1) > 0;
  if (room < (generates ? 1 : 0)) {
    return tl::unexpected(bad_request(
        prompt_field, fmt::format("{} has {} tokens, which leaves no room for an answer in the context of {} tokens",
                                  prompt_field, prompt_tokens, info.max_model_len)));
  }
  if (params.max_tokens.value_or(0) > room) {
    return tl::unexpected(
        bad_request(params.max_tokens_field,
                    fmt::format("{} is {}, but the context of the model is {} tokens and the prompt has {}",
                                params.max_tokens_field, *params.max_tokens, info.max_model_len, prompt_tokens)));
  }
  const int64_t max_tokens = params.max_tokens.value_or(std::min(absent, room));
  if (params.sampling.min_tokens > max_tokens) {
    return tl::unexpected(bad_request("min_tokens", fmt::format("min_tokens is {}, more than max_tokens, which is {}",
                                                                params.sampling.min_tokens, max_tokens)));
  }
  return max_tokens;
}

std::string to_string(const request::SamplingParams& p) {
  return fmt::format(
      "temperature={} top_p={} top_k={} min_p={} presence_penalty={} frequency_penalty={} repetition_penalty={} "
      "seed={} choice={} "
      "logit_bias={} max_tokens={} min_tokens={} ignore_eos={} stop_token_ids={} logprobs={} prompt_logprobs={}",
      p.temperature, p.top_p, p.top_k, p.min_p, p.presence_penalty, p.frequency_penalty, p.repetition_penalty,
      p.seed ? fmt::to_string(*p.seed) : "none", p.choice, p.logit_bias.size(), p.max_tokens, p.min_tokens,
      p.ignore_eos, p.stop_token_ids.size(), p.logprobs ? fmt::to_string(*p.logprobs) : "none",
      p.prompt_logprobs ? fmt::to_string(*p.prompt_logprobs) : "none");
}

}  // namespace lockstep::server
