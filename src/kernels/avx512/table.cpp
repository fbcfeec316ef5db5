// SPDX-License-Identifier: Apache-2.0
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/isa_tables.h"

namespace lockstep::kernels {
namespace {

enum class Extension { kNone, kVnni, kBF16 };

KernelTable make_table(std::string_view isa, Extension extension) {
  KernelTable table{};
  table.isa = isa;
  avx512::add_float_matmul(&table);
  if (extension != Extension::kNone) {
    avx512::add_int8_matmul_vnni(&table);
    avx512::add_block_matmul_vnni(&table);
    avx512::add_channel_matmul_vnni(&table);
  } else {
    avx512::add_int8_matmul(&table);
    avx512::add_block_matmul(&table);
    avx512::add_channel_matmul(&table);
  }
  if (extension == Extension::kBF16) {
    avx512::add_bf16dot_matmul_native(&table);
  } else {
    avx512::add_bf16dot_matmul(&table);
  }
  avx512::add_attention(&table);
  avx512::add_elementwise(&table);
  return table;
}

}  // namespace

const KernelTable& avx512_table() {
  static const KernelTable table = make_table("avx512", Extension::kNone);
  return table;
}

const KernelTable& avx512vnni_table() {
  static const KernelTable table = make_table("avx512vnni", Extension::kVnni);
  return table;
}

const KernelTable& avx512bf16_table() {
  static const KernelTable table = make_table("avx512bf16", Extension::kBF16);
  return table;
}

}  // namespace lockstep::kernels
