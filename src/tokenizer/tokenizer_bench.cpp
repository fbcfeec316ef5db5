// SPDX-License-Identifier: Apache-2.0
// Encode and decode speed, in bytes of text. The texts are this repository's own files.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace lockstep::tokenizer {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

const Tokenizer& qwen3() {
  static const auto tokenizer = Tokenizer::load(LOCKSTEP_TESTDATA_DIR "/qwen3-tokenizer");
  if (!tokenizer) throw std::runtime_error(tokenizer.error().to_string());
  return **tokenizer;
}

// The first 1 MB or so of this repository's sources: every piece is new at first, then many repeat.
std::string code_text() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(LOCKSTEP_SOURCE_DIR "/src")) {
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& path : paths) {
    text += read(path);
    if (text.size() > 1000000) break;
  }
  return text;
}
std::string english_text() { return read(LOCKSTEP_SOURCE_DIR "/tests/data/golden/smollm2/passage.txt"); }

void encode(benchmark::State& state, const std::string& text) {
  const size_t tokens = qwen3().encode(text)->size();  // loads the tokenizer, too
  for (auto _ : state) {
    benchmark::DoNotOptimize(qwen3().encode(text));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}

void decode(benchmark::State& state, const std::string& text) {
  const auto ids = qwen3().encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(qwen3().decode(*ids, true));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

BENCHMARK_CAPTURE(encode, english, english_text())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, code_1mb, code_text())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, one_run_200k, std::string(200000, 'a'))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, one_run_2m, std::string(2000000, 'a'))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, english, english_text())->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::tokenizer
