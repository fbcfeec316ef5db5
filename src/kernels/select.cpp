// SPDX-License-Identifier: Apache-2.0
// Which table runs here. Compiled with baseline flags: it decides before any AVX code may run.
#include <string>

#include "base/log.h"
#include "cpu/features.h"
#include "kernels/isa_tables.h"

namespace lockstep::kernels {
namespace {

struct Level {
  std::string_view isa;
  const KernelTable& (*table)();
  /// What this CPU lacks for the level; empty if nothing.
  std::string (*missing)(const cpu::Features&);
};

std::string missing_for_avx2(const cpu::Features& f) {
  std::string out;
  const auto need = [&out](bool there, std::string_view name) {
    if (!there) out += (out.empty() ? "" : ", ") + std::string(name);
  };
  need(f.avx2, "AVX2");
  need(f.fma, "FMA");
  need(f.f16c, "F16C");
  return out;
}
std::string missing_for_avx512(const cpu::Features& f) { return f.avx512 ? "" : "AVX-512 F, BW, VL, DQ"; }
std::string missing_for_vnni(const cpu::Features& f) { return f.avx512_vnni ? "" : "AVX-512 F, BW, VL, DQ, VNNI"; }

std::string missing_for_bf16(const cpu::Features& f) {
  return f.avx512_vnni && f.avx512_bf16 ? "" : "AVX-512 F, BW, VL, DQ, VNNI, BF16";
}

// Best first.
constexpr Level kLevels[] = {
    {"avx512bf16", avx512bf16_table, missing_for_bf16},
    {"avx512vnni", avx512vnni_table, missing_for_vnni},
    {"avx512", avx512_table, missing_for_avx512},
    {"avx2", avx2_table, missing_for_avx2},
    {"ref", ref_table, missing_for_avx2},
};

Expected<const KernelTable*> checked_table(const Level& level) {
  const KernelTable& table = level.table();
  LOCKSTEP_RETURN_IF_ERROR(self_check(table));
  return &table;
}

Expected<const KernelTable*> named_table(std::string_view isa, const cpu::Features& features) {
  std::string names;
  for (const Level& level : kLevels) {
    if (level.isa == isa) {
      const std::string missing = level.missing(features);
      if (missing.empty()) return checked_table(level);
      return error(StatusCode::kUnsupported, "instruction set {} was asked for, but this CPU ({}) lacks {}", isa,
                   cpu::cpu_name(), missing);
    }
    names = std::string(level.isa) + (names.empty() ? "" : ", ") + names;
  }
  return error(StatusCode::kInvalidArgument, "unknown instruction set \"{}\"; known: {}", isa, names);
}

}  // namespace

Expected<const KernelTable*> select_kernels(std::string_view isa_override) {
  const cpu::Features features = cpu::detect_features();
  if (const std::string missing = missing_for_avx2(features); !missing.empty()) {
    return error(StatusCode::kUnsupported, "this CPU ({}) lacks {}, which Lockstep needs", cpu::cpu_name(), missing);
  }
  if (!isa_override.empty()) return named_table(isa_override, features);
  for (const Level& level : kLevels) {
    if (!level.missing(features).empty()) continue;
    Expected<const KernelTable*> table = checked_table(level);
    if (table) return table;
    log_warning("{}; taking the next lower instruction set", table.error().message());
  }
  return error(StatusCode::kInternal, "no kernel table passes its self-check on this CPU ({})", cpu::cpu_name());
}

}  // namespace lockstep::kernels
