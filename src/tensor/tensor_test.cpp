// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace lockstep {
namespace {

TEST(DType, BytesAreChecked) {
  EXPECT_EQ(dtype_bytes(DType::kF32, 3), 12);
  EXPECT_EQ(dtype_bytes(DType::kQ4_1, 64), 40);
  EXPECT_EQ(dtype_bytes(DType::kQ4_1, 33), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kF32, -1), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kF32, std::numeric_limits<int64_t>::max()), std::nullopt);
  EXPECT_EQ(to_string(DType::kIQ4_XS), "iq4_xs");
}

TEST(View, PrefixNarrowsAndKeepsStrides) {
  std::array<int, 24> data{};
  for (int i = 0; i < 24; ++i) data[static_cast<size_t>(i)] = i;
  const View<int> view(data.data(), {4, 6});
  const View<const int> head = view.prefix(2);
  EXPECT_EQ(head.extent(0), 2);
  EXPECT_EQ(head.size(), 12);
  EXPECT_EQ(head(1, 5), 11);
  EXPECT_EQ(view.slice(3, 1)(0, 0), 18);
  EXPECT_TRUE(View<int>().prefix(0).empty());
}

TEST(View, ColumnsKeepTheRowStride) {
  std::vector<int> data(24);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int>(i);
  const View<int> middle = View<int>(data.data(), {4, 6}).columns(2, 3);
  EXPECT_EQ(middle.extent(1), 3);
  EXPECT_EQ(middle(3, 2), 22);
  EXPECT_EQ(middle.slice(1, 2)(0, 0), 8);
  EXPECT_TRUE(View<int>().columns(0, 0).empty());
}

TEST(Buffer, AllocatesZeroedAndFailsAsAStatus) {
  auto buffer = Buffer::allocate(1 << 22, "test");
  ASSERT_TRUE(buffer);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
  EXPECT_EQ(buffer->as<int>()[12345], 0);
  Buffer moved = std::move(*buffer);
  EXPECT_EQ(moved.bytes(), 1 << 22);
  const auto huge = Buffer::allocate(std::numeric_limits<int64_t>::max() / 2, "the KV pool");
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(huge.error().message().find("the KV pool"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
