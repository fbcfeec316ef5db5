// SPDX-License-Identifier: Apache-2.0
// The patterns are those of the models' own tokenizer.json; names and defaults are llama.cpp's (src/llama-vocab.cpp).
#include "tokenizer/gguf_pre.h"

#include <algorithm>
#include <array>

namespace lockstep::tokenizer {
namespace {

using std::string_view;

constexpr string_view kDigit = R"(\p{N})";
constexpr string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr string_view kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// DeepSeek LLM lists the letters with case of the Unicode version of its day.
constexpr string_view kDeepSeekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";

constexpr std::array kGpt2Steps = {kGpt2};
constexpr std::array kQwen2Steps = {kQwen2};
constexpr std::array kLlama3Steps = {kLlama3};
constexpr std::array kTekkenSteps = {kTekken};
constexpr std::array kO200kSteps = {kO200k};
constexpr std::array kDigitGpt2Steps = {kDigit, kGpt2};
constexpr std::array kDeepSeekV3Steps = {string_view(R"(\p{N}{1,3})"),
                                         string_view(R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"),
                                         kDeepSeekV3};
constexpr std::array kDeepSeekLlmSteps = {
    string_view(R"([\r\n])"),
    kDeepSeekLetters,
    string_view(R"(\s?[!-\/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)"),
    string_view(R"(\s+$)"),
    string_view(R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"),
    kDigit};
constexpr std::array kDeepSeekCoderSteps = {
    string_view(R"([\r\n])"), string_view(R"(\s?\p{L}+)"), string_view(R"(\s?\p{P}+)"),
    string_view(R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"), kDigit};
constexpr std::array kDefaultSteps = {
    string_view(R"([\p{P}\$\+<=>\^~\|]+)"),
    string_view(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"), string_view(R"(\p{N}+)"),
    string_view(R"([0-9][0-9][0-9])")};

struct Entry {
  string_view name;
  GgufPreType type;
};

constexpr GgufPreType kLlama3Type = {kLlama3Steps, /*ignore_merges=*/true, /*add_bos=*/true, false};

constexpr Entry kEntries[] = {
    {"default", {kDefaultSteps}},
    {"gpt-2", {kGpt2Steps}},
    {"phi-2", {kGpt2Steps}},
    {"olmo", {kGpt2Steps}},
    {"mpt", {kGpt2Steps}},
    {"jais", {kGpt2Steps}},
    {"smollm", {kDigitGpt2Steps}},
    {"starcoder", {kDigitGpt2Steps}},
    {"refact", {kDigitGpt2Steps}},
    {"command-r", {kDigitGpt2Steps}},
    {"codeshell", {kDigitGpt2Steps}},
    {"qwen2", {kQwen2Steps, false, false, /*nfc=*/true}},
    {"deepseek-r1-qwen", {kQwen2Steps}},
    {"stablelm2", {kQwen2Steps}},
    {"llama3", kLlama3Type},
    {"llama-v3", kLlama3Type},
    {"llama-bpe", kLlama3Type},
    {"falcon3", kLlama3Type},
    {"lfm2", kLlama3Type},
    {"dbrx", {kLlama3Steps}},
    {"smaug-bpe", {kLlama3Steps}},
    {"glm4", {kLlama3Steps}},
    {"chatglm-bpe", {kLlama3Steps}},
    {"tekken", {kTekkenSteps, /*ignore_merges=*/true, /*add_bos=*/true, false}},
    {"gpt-4o", {kO200kSteps}},
    {"llama4", {kO200kSteps}},
    {"deepseek-llm", {kDeepSeekLlmSteps}},
    {"deepseek-coder", {kDeepSeekCoderSteps}},
    {"deepseek-v3", {kDeepSeekV3Steps}},
};

}  // namespace

std::optional<GgufPreType> gguf_pre_type(string_view name) {
  const auto* found =
      std::find_if(std::begin(kEntries), std::end(kEntries), [&](const Entry& e) { return e.name == name; });
  if (found == std::end(kEntries)) return std::nullopt;
  return found->type;
}

std::string known_gguf_pre_types() {
  std::string names;
  for (const Entry& entry : kEntries) names.append(names.empty() ? "" : ", ").append(entry.name);
  return names;
}

}  // namespace lockstep::tokenizer
