// SPDX-License-Identifier: Apache-2.0
// Every table that can run on the machine of the test.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpu/features.h"
#include "kernels/isa_tables.h"

namespace lockstep::kernels {

/// simde_table.cpp
const KernelTable& avx512_simde_table(bool native);  ///< native: with VNNI and BF16

/// The widest that this CPU runs comes last.
inline std::vector<const KernelTable*> tables_to_test() {
  const cpu::Features features = cpu::detect_features();
  std::vector<const KernelTable*> tables = {&ref_table(), &avx512_simde_table(/*native=*/false),
                                            &avx512_simde_table(/*native=*/true), &avx2_table()};
  if (features.avx512) tables.push_back(&avx512_table());
  if (features.avx512_vnni) tables.push_back(&avx512vnni_table());
  if (features.avx512_vnni && features.avx512_bf16) tables.push_back(&avx512bf16_table());
  return tables;
}

inline std::vector<const KernelTable*> fast_tables_to_test() {
  std::vector<const KernelTable*> tables = tables_to_test();
  tables.erase(tables.begin());
  return tables;
}

inline std::string table_name(const testing::TestParamInfo<const KernelTable*>& info) {
  std::string name(info.param->isa);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

}  // namespace lockstep::kernels
