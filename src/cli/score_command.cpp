// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cmath>
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
  std::string output = "text";
};

/// Sums over scored tokens, in double.
struct Score {
  int64_t count = 0;
  double sum = 0;
  double sum_of_squares = 0;

  void add(double logprob) {
    ++count;
    sum += logprob;
    sum_of_squares += logprob * logprob;
  }
  void add(const Score& other) {
    count += other.count;
    sum += other.sum;
    sum_of_squares += other.sum_of_squares;
  }
  double nll_mean() const { return -sum / static_cast<double>(count); }
  /// Standard error of the mean from the sample variance; 0 for fewer than two tokens.
  double nll_stderr() const {
    if (count < 2) return 0;
    const auto n = static_cast<double>(count);
    const double variance = std::max(0.0, (sum_of_squares - sum * sum / n) / (n - 1));
    return std::sqrt(variance / n);
  }
};

void add_totals(ordered_json& line, const Score& score) {
  line["sum"] = score.sum;
  line["nll_mean"] = score.count > 0 ? ordered_json(score.nll_mean()) : ordered_json();
  line["nll_stderr"] = score.count > 0 ? ordered_json(score.nll_stderr()) : ordered_json();
  line["perplexity"] = score.count > 0 ? ordered_json(std::exp(score.nll_mean())) : ordered_json();
}

/// Ids of all prompts; the tokenizer is loaded only if one of them is text.
Expected<std::vector<std::vector<int32_t>>> encode_prompts(const Flags& flags) {
  std::shared_ptr<const text::TextModel> text_model;
  std::vector<std::vector<int32_t>> encoded;
  for (const Prompt& prompt : flags.prompts) {
    if (prompt.kind == PromptKind::kIds) {
      LOCKSTEP_ASSIGN_OR_RETURN(encoded.emplace_back(), parse_prompt_ids(prompt.value));
      continue;
    }
    if (!text_model) {
      LOCKSTEP_ASSIGN_OR_RETURN(text_model,
                                text::TextModel::load(flags.engine.model, {.tokenizer = flags.engine.tokenizer}));
    }
    std::string text = prompt.value;
    if (prompt.kind == PromptKind::kFile) {
      LOCKSTEP_ASSIGN_OR_RETURN(text, read_text_file(prompt.value));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(encoded.emplace_back(), text_model->encode_prompt(text));
  }
  return encoded;
}

request::Request scoring_request(std::vector<int32_t> ids) {
  request::Request request;
  request.prompt_token_ids = std::move(ids);
  request.sampling.max_tokens = 0;
  request.sampling.prompt_logprobs = 0;
  return request;
}

ordered_json result_line(const std::vector<int32_t>& ids, const RequestResult& result, Score& score) {
  ordered_json logprobs = ordered_json::array({nullptr});
  ordered_json ranks = ordered_json::array({nullptr});
  for (size_t i = 1; i < ids.size(); ++i) {
    const request::TokenLogprobs& token = result.prompt_logprobs[i];
    logprobs.push_back(json_number(token.logprob));
    ranks.push_back(token.rank);
    score.add(token.logprob);
  }
  ordered_json line{{"prompt_token_ids", ids}, {"logprobs", logprobs}, {"rank", ranks}};
  add_totals(line, score);
  return line;
}

void print_text(size_t index, const Score& score) {
  std::printf("prompt %zu: %lld tokens scored, nll %.6f +- %.6f, perplexity %.4f\n", index,
              static_cast<long long>(score.count), score.nll_mean(), score.nll_stderr(), std::exp(score.nll_mean()));
}

Status score_all(Flags& flags) {
  LOCKSTEP_RETURN_IF_ERROR(make_local(flags.engine));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto prompts, encode_prompts(flags));
  if (prompts.empty()) return invalid_argument("score needs at least one --prompt, --prompt-file or --prompt-ids");
  LOCKSTEP_ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(flags.engine));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, load_engine(flags.engine, checkpoint, end_tokens(*checkpoint)));
  Score total;
  for (size_t i = 0; i < prompts.size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto results, run_requests(*engine, {scoring_request(prompts[i])}));
    LOCKSTEP_RETURN_IF_ERROR(results[0].error.with_context(fmt::format("prompt {}", i)));
    Score score;
    const ordered_json line = result_line(prompts[i], results[0], score);
    total.add(score);
    if (flags.output == "json") {
      std::puts(dump(line).c_str());
    } else {
      print_text(i, score);
    }
    std::fflush(stdout);
  }
  if (flags.output == "json") {
    ordered_json line{{"prompts", prompts.size()}, {"tokens", total.count}};
    add_totals(line, total);
    std::puts(dump(line).c_str());
  } else {
    std::printf("total: %lld tokens scored, nll %.6f +- %.6f, perplexity %.4f\n", static_cast<long long>(total.count),
                total.nll_mean(), total.nll_stderr(), std::exp(total.nll_mean()));
  }
  return {};
}

}  // namespace

void add_score_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("score", "log-probabilities of the tokens of prompts, each alone in one window");
  const auto flags = std::make_shared<Flags>();
  add_engine_flags(*command, flags->engine);
  command->add_option("--tokenizer", flags->engine.tokenizer, "directory or .gguf file with another tokenizer");
  add_prompt_options(*command, flags->prompts, {PromptKind::kText, PromptKind::kFile, PromptKind::kIds});
  command->add_option("--output", flags->output, "text, or json: a line a prompt and a total line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->callback([flags, &run] {
    run = [flags] {
      const Status status = score_all(*flags);
      return status.ok() ? 0 : report_error(status);
    };
  });
}

}  // namespace lockstep::cli
