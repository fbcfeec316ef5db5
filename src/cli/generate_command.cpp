// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/local_model.h"
#include "cli/json_lines.h"
#include "cli/prompts.h"
#include "cli/run_requests.h"
#include "text/text_model.h"

namespace lockstep::cli {
namespace {

using nlohmann::ordered_json;

struct Flags {
  EngineFlags engine;
  std::vector<Prompt> prompts;
  request::SamplingParams sampling = defaults();
  std::string output = "text";

  static request::SamplingParams defaults() {
    request::SamplingParams made;
    made.max_tokens = 128;
    return made;
  }
};

/// The tokenizer and chat template, loaded only if a prompt is text; nullptr for a model without a tokenizer.
Expected<std::shared_ptr<const text::TextModel>> load_text_model(const Flags& flags) {
  const bool needed = std::any_of(flags.prompts.begin(), flags.prompts.end(),
                                  [](const Prompt& prompt) { return prompt.kind != PromptKind::kIds; });
  auto loaded = text::TextModel::load(flags.engine.model, {.tokenizer = flags.engine.tokenizer});
  if (loaded) return loaded;
  // Ids need no tokenizer: their text is then null. A tokenizer that was named, or is needed, must load.
  if (!needed && flags.engine.tokenizer.empty()) return std::shared_ptr<const text::TextModel>();
  return loaded;
}

Expected<std::vector<int32_t>> encode(const Prompt& prompt, const text::TextModel* model) {
  if (prompt.kind == PromptKind::kIds) return parse_prompt_ids(prompt.value);
  if (prompt.kind == PromptKind::kText) return model->encode_prompt(prompt.value);
  text::ChatInput input;
  input.messages = ordered_json::array({{{"role", "user"}, {"content", prompt.value}}});
  return model->encode_chat(std::move(input));
}

/// Token ids without a final end token: the ids that have text.
std::vector<int32_t> visible_ids(const RequestResult& result, const std::vector<int32_t>& end_ids, bool ignore_eos) {
  std::vector<int32_t> ids = result.token_ids;
  const bool ended = result.finish_reason == request::FinishReason::kStop && !ids.empty() && !ignore_eos;
  if (ended && std::find(end_ids.begin(), end_ids.end(), ids.back()) != end_ids.end()) ids.pop_back();
  return ids;
}

ordered_json logprob_lists(const RequestResult& result, bool top) {
  ordered_json list = ordered_json::array();
  for (const request::TokenLogprobs& token : result.logprobs) {
    if (!top) {
      list.push_back(json_number(token.logprob));
      continue;
    }
    ordered_json pairs = ordered_json::array();
    for (const auto& [id, logprob] : token.top) pairs.push_back({id, json_number(logprob)});
    list.push_back(std::move(pairs));
  }
  return list;
}

struct Answer {
  size_t index;
  const std::vector<int32_t>& prompt_ids;
  const RequestResult& result;
  std::optional<std::string> text;
};

void print_json(const Answer& answer, bool with_logprobs) {
  ordered_json line{{"index", answer.index},
                    {"prompt_token_ids", answer.prompt_ids},
                    {"token_ids", answer.result.token_ids},
                    {"text", answer.text ? ordered_json(*answer.text) : ordered_json()},
                    {"finish_reason", request::to_string(answer.result.finish_reason)},
                    {"logprobs", nullptr},
                    {"top_logprobs", nullptr}};
  if (with_logprobs) {
    line["logprobs"] = logprob_lists(answer.result, /*top=*/false);
    line["top_logprobs"] = logprob_lists(answer.result, /*top=*/true);
  }
  if (!answer.result.error.ok()) line["error"] = answer.result.error.message();
  std::puts(dump(line).c_str());
}

void print_text(const Answer& answer, size_t count, const Prompt& prompt) {
  if (count > 1) std::printf("--- prompt %zu: %s\n", answer.index, prompt.value.c_str());
  if (answer.text) {
    std::printf("%s\n", answer.text->c_str());
  } else {
    std::printf("%s\n", fmt::format("{}", fmt::join(answer.result.token_ids, ",")).c_str());
  }
}

Status generate(Flags& flags) {
  LOCKSTEP_RETURN_IF_ERROR(make_local(flags.engine));
  if (flags.prompts.empty()) return invalid_argument("generate needs at least one --prompt, --prompt-ids or --chat");
  LOCKSTEP_ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(flags.engine));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto text_model, load_text_model(flags));
  std::vector<request::Request> requests(flags.prompts.size());
  std::vector<std::vector<int32_t>> prompt_ids;
  for (size_t i = 0; i < requests.size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(prompt_ids.emplace_back(), encode(flags.prompts[i], text_model.get()));
    requests[i].prompt_token_ids = prompt_ids.back();
    requests[i].sampling = flags.sampling;
  }
  EngineFlags engine_flags = flags.engine;
  engine_flags.engine.max_queued_requests = std::max<int64_t>(static_cast<int64_t>(requests.size()), 1024);
  const std::vector<int32_t> end_ids = text_model ? text_model->end_token_ids() : end_tokens(*checkpoint);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, load_engine(engine_flags, checkpoint, end_ids));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto results, run_requests(*engine, std::move(requests)));
  Status first_error;
  for (size_t i = 0; i < results.size(); ++i) {
    Answer answer{i, prompt_ids[i], results[i], std::nullopt};
    if (text_model) {
      answer.text =
          text_model->decode(visible_ids(results[i], end_ids, flags.sampling.ignore_eos), /*skip_special_tokens=*/true);
    }
    if (flags.output == "json") {
      print_json(answer, flags.sampling.logprobs.has_value());
    } else {
      print_text(answer, results.size(), flags.prompts[i]);
    }
    if (first_error.ok()) first_error = results[i].error.with_context(fmt::format("prompt {}", i));
  }
  return first_error;
}

void add_sampling_flags(CLI::App& command, request::SamplingParams& sampling) {
  command.add_option("--max-tokens", sampling.max_tokens, "tokens to generate at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  command.add_option("--temperature", sampling.temperature, "0 = greedy")
      ->check(CLI::Range(0.0, 2.0))
      ->capture_default_str();
  command.add_option("--top-p", sampling.top_p, "nucleus: the smallest set of tokens with this probability")
      ->capture_default_str();
  command.add_option("--top-k", sampling.top_k, "the k most likely tokens only; 0 = all")->capture_default_str();
  command.add_option_function<uint64_t>(
      "--seed", [&sampling](uint64_t seed) { sampling.seed = seed; }, "seed of the draws; absent: a new one each time");
  command
      .add_option_function<int>(
          "--logprobs", [&sampling](int count) { sampling.logprobs = count; },
          "log-probabilities of the chosen tokens (0) and of the best k (1..20)")
      ->check(CLI::Range(0, 20));
  command.add_flag("--ignore-eos", sampling.ignore_eos, "go on after an end token");
}

}  // namespace

void add_generate_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("generate", "answers prompts from the command line, all of them in one batch");
  const auto flags = std::make_shared<Flags>();
  add_engine_flags(*command, flags->engine);
  command->add_option("--tokenizer", flags->engine.tokenizer, "directory or .gguf file with another tokenizer");
  add_prompt_options(*command, flags->prompts, {PromptKind::kText, PromptKind::kIds, PromptKind::kChat});
  add_sampling_flags(*command, flags->sampling);
  command->add_option("--output", flags->output, "text, or json: a line a prompt")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->callback([flags, &run] {
    run = [flags] {
      const Status status = generate(*flags);
      return status.ok() ? 0 : report_error(status);
    };
  });
}

}  // namespace lockstep::cli
