// SPDX-License-Identifier: Apache-2.0
#include "files/ggml_types.h"

#include <array>
#include <string_view>

#include "fmt/format.h"

namespace lockstep::files {
namespace {

struct GgmlType {
  uint32_t number;
  std::string_view name;
  std::optional<DType> dtype;  ///< nullopt: known to ggml, not read here
};

constexpr std::array<GgmlType, 41> kTypes = {{
    {0, "F32", DType::kF32},          {1, "F16", DType::kF16},          {2, "Q4_0", DType::kQ4_0},
    {3, "Q4_1", DType::kQ4_1},        {4, "Q4_2", std::nullopt},        {5, "Q4_3", std::nullopt},
    {6, "Q5_0", DType::kQ5_0},        {7, "Q5_1", DType::kQ5_1},        {8, "Q8_0", DType::kQ8_0},
    {9, "Q8_1", std::nullopt},        {10, "Q2_K", DType::kQ2_K},       {11, "Q3_K", DType::kQ3_K},
    {12, "Q4_K", DType::kQ4_K},       {13, "Q5_K", DType::kQ5_K},       {14, "Q6_K", DType::kQ6_K},
    {15, "Q8_K", std::nullopt},       {16, "IQ2_XXS", std::nullopt},    {17, "IQ2_XS", std::nullopt},
    {18, "IQ3_XXS", std::nullopt},    {19, "IQ1_S", std::nullopt},      {20, "IQ4_NL", DType::kIQ4_NL},
    {21, "IQ3_S", std::nullopt},      {22, "IQ2_S", std::nullopt},      {23, "IQ4_XS", DType::kIQ4_XS},
    {24, "I8", DType::kI8},           {25, "I16", std::nullopt},        {26, "I32", DType::kI32},
    {27, "I64", DType::kI64},         {28, "F64", std::nullopt},        {29, "IQ1_M", std::nullopt},
    {30, "BF16", DType::kBF16},       {31, "Q4_0_4_4", std::nullopt},   {32, "Q4_0_4_8", std::nullopt},
    {33, "Q4_0_8_8", std::nullopt},   {34, "TQ1_0", std::nullopt},      {35, "TQ2_0", std::nullopt},
    {36, "IQ4_NL_4_4", std::nullopt}, {37, "IQ4_NL_4_8", std::nullopt}, {38, "IQ4_NL_8_8", std::nullopt},
    {39, "MXFP4", std::nullopt},      {40, "NVFP4", std::nullopt},
}};

}  // namespace

std::optional<DType> dtype_of_ggml_type(uint32_t type) {
  if (type >= kTypes.size()) return std::nullopt;
  return kTypes[type].dtype;  // the table is indexed by number
}

std::string ggml_type_text(uint32_t type) {
  if (type >= kTypes.size()) return fmt::format("type {}", type);
  return fmt::format("{} (type {})", kTypes[type].name, type);
}

}  // namespace lockstep::files
