// SPDX-License-Identifier: Apache-2.0
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/isa_tables.h"

namespace lockstep::kernels {
namespace {

KernelTable make_table(bool vnni) {
  KernelTable table{};
  table.isa = vnni ? "avx512vnni" : "avx512";
  avx512::add_float_matmul(&table);
  if (vnni) {
    avx512::add_int8_matmul_vnni(&table);
    avx512::add_block_matmul_vnni(&table);
    avx512::add_channel_matmul_vnni(&table);
  } else {
    avx512::add_int8_matmul(&table);
    avx512::add_block_matmul(&table);
    avx512::add_channel_matmul(&table);
  }
  avx512::add_attention(&table);
  avx512::add_elementwise(&table);
  return table;
}

}  // namespace

const KernelTable& avx512_table() {
  static const KernelTable table = make_table(false);
  return table;
}

const KernelTable& avx512vnni_table() {
  static const KernelTable table = make_table(true);
  return table;
}

}  // namespace lockstep::kernels
