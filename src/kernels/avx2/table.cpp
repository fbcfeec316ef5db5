// SPDX-License-Identifier: Apache-2.0
#include "kernels/avx2/avx2_kernels.h"
#include "kernels/isa_tables.h"

namespace lockstep::kernels {
namespace {

KernelTable make_table() {
  KernelTable table{};
  table.isa = "avx2";
  avx2::add_float_matmul(&table);
  avx2::add_int8_matmul(&table);
  avx2::add_block_matmul(&table);
  avx2::add_channel_matmul(&table);
  avx2::add_bf16dot_matmul(&table);
  avx2::add_attention(&table);
  avx2::add_elementwise(&table);
  return table;
}

}  // namespace

const KernelTable& avx2_table() {
  static const KernelTable table = make_table();
  return table;
}

}  // namespace lockstep::kernels
