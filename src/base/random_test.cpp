// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  const uint32_t f = 0xffffffffu;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}),
            (std::array<uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
            (std::array<uint32_t, 4>{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

}  // namespace
}  // namespace lockstep
