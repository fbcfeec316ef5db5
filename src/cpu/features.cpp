// SPDX-License-Identifier: Apache-2.0
#include "cpu/features.h"

#include <cpuid.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace lockstep::cpu {
namespace {

constexpr uint64_t kYmmState = 0x6;   // XCR0: SSE and AVX registers
constexpr uint64_t kZmmState = 0xe6;  // and opmask, upper halves, upper 16 registers

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Leaf out;
  if (__get_cpuid_count(leaf, subleaf, &out.eax, &out.ebx, &out.ecx, &out.edx) == 0) return {};
  return out;
}

bool bit(uint32_t word, int index) { return ((word >> index) & 1u) != 0; }

uint64_t enabled_state() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

}  // namespace

Features detect_features() {
  Features out;
  const Leaf one = cpuid(1);
  const bool os_saves_state = bit(one.ecx, 27);  // OSXSAVE
  if (!os_saves_state || !bit(one.ecx, 28)) return out;
  const uint64_t state = enabled_state();
  if ((state & kYmmState) != kYmmState) return out;
  const Leaf seven = cpuid(7);
  out.fma = bit(one.ecx, 12);
  out.f16c = bit(one.ecx, 29);
  out.avx2 = bit(seven.ebx, 5);
  if ((state & kZmmState) != kZmmState) return out;
  const bool f = bit(seven.ebx, 16);
  const bool dq = bit(seven.ebx, 17);
  const bool bw = bit(seven.ebx, 30);
  const bool vl = bit(seven.ebx, 31);
  out.avx512 = f && dq && bw && vl;
  out.avx512_vnni = out.avx512 && bit(seven.ecx, 11);
  out.avx512_bf16 = out.avx512 && seven.eax >= 1 && bit(cpuid(7, 1).eax, 5);
  return out;
}

std::string cpu_name() {
  constexpr uint32_t kFirst = 0x80000002u;
  constexpr uint32_t kLast = 0x80000004u;
  if (__get_cpuid_max(0x80000000u, nullptr) < kLast) return "unknown CPU";
  std::array<char, 49> text{};
  for (uint32_t leaf = kFirst; leaf <= kLast; ++leaf) {
    const Leaf part = cpuid(leaf);
    std::memcpy(text.data() + (leaf - kFirst) * sizeof(Leaf), &part, sizeof(Leaf));
  }
  std::string name(text.data());
  const size_t first = name.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown CPU";
  return name.substr(first, name.find_last_not_of(' ') - first + 1);
}

}  // namespace lockstep::cpu
