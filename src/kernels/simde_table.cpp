// SPDX-License-Identifier: Apache-2.0
// Test only: the AVX-512 tables' sources through SIMDe, on AVX2.
#define LOCKSTEP_USE_SIMDE  // the declarations of that build
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/test_tables.h"

namespace lockstep::kernels {

const KernelTable& avx512_simde_table(bool native) {
  const auto make = [](bool with_extensions) {
    KernelTable table{};
    table.isa = with_extensions ? "avx512bf16-simde" : "avx512-simde";
    avx512_simde::add_float_matmul(&table);
    if (with_extensions) {
      avx512_simde::add_int8_matmul_vnni(&table);
      avx512_simde::add_block_matmul_vnni(&table);
      avx512_simde::add_channel_matmul_vnni(&table);
      avx512_simde::add_bf16dot_matmul_native(&table);
    } else {
      avx512_simde::add_int8_matmul(&table);
      avx512_simde::add_block_matmul(&table);
      avx512_simde::add_channel_matmul(&table);
      avx512_simde::add_bf16dot_matmul(&table);
    }
    avx512_simde::add_attention(&table);
    avx512_simde::add_elementwise(&table);
    return table;
  };
  static const KernelTable plain = make(false);
  static const KernelTable with_extensions = make(true);
  return native ? with_extensions : plain;
}

}  // namespace lockstep::kernels
