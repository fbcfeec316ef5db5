// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include "fmt/format.h"

namespace lockstep::server {

namespace {

using request::FinishReason;

class Writer {
 public:
  explicit Writer(std::string_view model_name)
      : labels_(fmt::format("model_name=\"{}\",engine=\"0\"", escape_label(model_name))) {}

  void head(std::string_view name, std::string_view type, std::string_view help) {
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class T>
  void value(std::string_view name, T number, std::string_view more_labels = "") {
    out_ += fmt::format("{}{{{}{}}} {}\n", name, labels_, more_labels, number);
  }
  template <class T>
  void single(std::string_view name, std::string_view type, std::string_view help, T number) {
    head(name, type, help);
    value(name, number);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram::Values& values) {
    head(name, "histogram", help);
    uint64_t count = 0;
    for (size_t i = 0; i < values.bounds.size(); ++i) {
      count += values.counts[i];
      value(fmt::format("{}_bucket", name), count, fmt::format(",le=\"{}\"", values.bounds[i]));
    }
    count += values.counts.back();
    value(fmt::format("{}_bucket", name), count, ",le=\"+Inf\"");
    value(fmt::format("{}_sum", name), values.sum);
    value(fmt::format("{}_count", name), count);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string labels_;
  std::string out_;
};

void write_engine(Writer& writer, const MetricsInput& input) {
  const engine::EngineStats& stats = input.engine;
  const int64_t used = stats.num_blocks - stats.num_free_blocks;
  const double usage = stats.num_blocks > 0 ? static_cast<double>(used) / static_cast<double>(stats.num_blocks) : 0.0;
  writer.single("vllm:num_requests_running", "gauge", "Requests that get tokens computed.", stats.num_running);
  writer.single("vllm:num_requests_waiting", "gauge", "Requests that wait to run.", stats.num_waiting);
  writer.single("vllm:kv_cache_usage_perc", "gauge", "KV cache in use; 1 is all of it.", usage);
  writer.single("vllm:gpu_cache_usage_perc", "gauge", "The older name of vllm:kv_cache_usage_perc.", usage);
  writer.single("vllm:prompt_tokens_total", "counter", "Prompt tokens computed.", stats.prompt_tokens);
  writer.single("vllm:generation_tokens_total", "counter", "Tokens generated.", stats.generation_tokens);
  for (const std::string_view prefix : {"vllm:", "vllm:gpu_"}) {  // the older names too
    writer.single(fmt::format("{}prefix_cache_queries_total", prefix), "counter",
                  "Prompt tokens looked up in the prefix cache.", stats.prefix_cache_queries);
    writer.single(fmt::format("{}prefix_cache_hits_total", prefix), "counter",
                  "Prompt tokens found in the prefix cache.", stats.prefix_cache_hits);
  }
  writer.single("vllm:num_preemptions_total", "counter", "Requests put back to waiting, to be computed again.",
                stats.num_preemptions);
  writer.head("vllm:cache_config_info", "gauge", "Geometry of the KV cache.");
  writer.value("vllm:cache_config_info", 1,
               fmt::format(",block_size=\"{}\",num_gpu_blocks=\"{}\"", input.block_size, stats.num_blocks));
  const int64_t cached = stats.num_cached_blocks;
  writer.single("lockstep:kv_blocks_used", "gauge", "KV blocks of requests.", used);
  writer.single("lockstep:kv_blocks_cached", "gauge",
                "KV blocks that nobody uses, in which a prefix can still be found.", cached);
  writer.single("lockstep:kv_blocks_free", "gauge", "KV blocks that hold nothing.", stats.num_free_blocks - cached);
  writer.single("lockstep:waiting_tokens", "gauge", "Prompt tokens of waiting requests.", stats.num_waiting_tokens);
  writer.single("lockstep:queue_rejections_total", "counter", "Requests that found the queue full.", stats.num_refused);
  writer.single("lockstep:steps_total", "counter", "Engine steps.", stats.num_steps);
  writer.single("lockstep:step_wall_seconds_total", "counter", "Wall time of all engine steps.",
                stats.total_step_wall_s);
  writer.single("lockstep:backend_wall_seconds_total", "counter", "Wall time inside the backend.",
                stats.total_backend_wall_s);
}

}  // namespace

std::string escape_label(std::string_view value) {
  std::string out;
  for (char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string metrics_text(const MetricsInput& input, const RequestCounters& counters,
                         const RequestHistograms& histograms) {
  Writer writer(input.model_name);
  write_engine(writer, input);
  writer.head("vllm:request_success_total", "counter", "Requests that have ended, by reason.");
  for (FinishReason reason : {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled,
                              FinishReason::kDeadline, FinishReason::kError}) {
    writer.value("vllm:request_success_total", counters.count(reason),
                 fmt::format(",finished_reason=\"{}\"", request::to_string(reason)));
  }
  for (const auto& [name, help, histogram] : histograms.all()) writer.histogram(name, help, histogram->values());
  const engine::StepTokens& steps = input.engine.step_tokens;
  writer.histogram("vllm:iteration_tokens_total", "Tokens of an engine step.",
                   {{steps.kBounds.begin(), steps.kBounds.end()},
                    {steps.counts.begin(), steps.counts.end()},
                    static_cast<double>(steps.sum)});
  return writer.take();
}

}  // namespace lockstep::server
