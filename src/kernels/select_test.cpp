// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ctime>

#include "kernels/test_tables.h"

namespace lockstep::kernels {
namespace {

class SelectTableTest : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Tables, SelectTableTest, testing::ValuesIn(tables_to_test()), table_name);

TEST_P(SelectTableTest, PassesItsSelfCheckQuickly) {
  const std::clock_t start = std::clock();  // processor time: the machine may be busy
  const Status status = self_check(*GetParam());
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC / 2);
}

void wrong_add(float* x, const float*, int64_t) { x[0] += 1.0f; }
void wrong_matmul(const MatmulArgs& args) {
  ref_table().matmul[static_cast<int>(WeightFormat::kQ4_1)](args);
  args.out[0] += 1.0f;
}

TEST(SelfCheckTest, NamesTheKernelThatDiffers) {
  KernelTable table = ref_table();
  table.add = wrong_add;
  EXPECT_EQ(self_check(table).code(), StatusCode::kInternal);
  table = ref_table();
  table.matmul[static_cast<int>(WeightFormat::kQ4_1)] = wrong_matmul;
  EXPECT_NE(self_check(table).message().find("q4_1"), std::string::npos);
}

TEST(SelectTest, TakesTheBestByDefaultAndNamedLevelsOnly) {
  const auto best = select_kernels("");
  ASSERT_TRUE(best.has_value()) << best.error().to_string();
  const cpu::Features features = cpu::detect_features();
  const bool bf16 = features.avx512_vnni && features.avx512_bf16;
  const std::string_view wide = features.avx512_vnni ? (bf16 ? "avx512bf16" : "avx512vnni") : "avx512";
  EXPECT_EQ((*best)->isa, features.avx512 ? wide : "avx2");
  EXPECT_EQ((*select_kernels("ref"))->isa, "ref");
  EXPECT_EQ((*select_kernels("avx2"))->isa, "avx2");
  const auto unknown = select_kernels("neon");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.error().message().find("ref, avx2, avx512, avx512vnni, avx512bf16"), std::string::npos)
      << unknown.error().message();
  for (const auto& [isa, there] : {std::pair{"avx512vnni", features.avx512_vnni}, std::pair{"avx512bf16", bf16}}) {
    const auto table = select_kernels(isa);
    EXPECT_EQ(table.has_value(), there) << isa;
    if (!table) {
      EXPECT_EQ(table.error().code(), StatusCode::kUnsupported);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
