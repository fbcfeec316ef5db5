// SPDX-License-Identifier: Apache-2.0
// A table against the reference, for a few milliseconds: guards against a compiler or a CPU that does not do what was
// tested.
#include <algorithm>

#include "base/status.h"
#include "kernels/isa_tables.h"
#include "kernels/kernel_cases.h"

namespace lockstep::kernels {
namespace {

Status differs(const KernelTable& table, std::string_view kernel) {
  return error(StatusCode::kInternal, "kernel {} of {} does not equal the reference", kernel, table.isa);
}

Status check_matmul(const KernelTable& table) {
  for (int format = 0; format < static_cast<int>(std::size(table.matmul)); ++format) {
    for (const int64_t m : {1, 3, 13}) {
      const MatmulCase test(static_cast<WeightFormat>(format), m, 39, 101, static_cast<uint32_t>(m));
      if (!same_bits(test.run(table.matmul[format]), test.run(ref_table().matmul[format]))) {
        return differs(table, to_string(test.format));
      }
    }
  }
  return {};
}

Status check_attention(const KernelTable& table) {
  for (const KvDType dtype : {KvDType::kBF16, KvDType::kF32}) {
    const auto index = static_cast<int>(dtype);
    for (const std::vector<int32_t>& lengths :
         {std::vector<int32_t>{37}, std::vector<int32_t>{50, 49, 48, 47, 46, 45, 44}}) {
      const AttendCase test(dtype, 40, lengths, 7);
      const AttendCase::Result ours = test.run(table.attend_segment[index]);
      const AttendCase::Result expected = test.run(ref_table().attend_segment[index]);
      const bool same =
          same_bits(ours.max, expected.max) && same_bits(ours.sum, expected.sum) && same_bits(ours.acc, expected.acc);
      if (!same) return differs(table, "attend_segment");
    }
  }
  return {};
}

/// Every kernel from floats to floats, on one vector with a tail.
std::vector<float> run_elementwise(const KernelTable& table, std::vector<float> x, const std::vector<float>& y) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> out(x.size());
  const auto keep = [&](const std::vector<float>& values) { out.insert(out.end(), values.begin(), values.end()); };
  table.silu_mul(x.data(), y.data(), n, out.data());
  std::vector<float> values(x.size());
  table.exp_array(x.data(), n, values.data());
  keep(values);
  table.rms_norm(x.data(), y.data(), 1e-6f, n, values.data());
  keep(values);
  values = x;
  table.rope(values.data(), y.data(), y.data() + n / 2, n);
  table.add(values.data(), y.data(), n);
  keep(values);
  float m = 0.5f, l = 2.0f;
  table.merge_segment(&m, &l, values.data(), 0.75f, 3.0f, y.data(), n);
  table.finish_attention(values.data(), l, n, values.data());
  keep(values);
  const ArgMax best = table.argmax(x.data(), n);
  out.insert(out.end(), {m, l, static_cast<float>(best.index), best.value, table.sum_exp(x.data(), n, 1.0f)});
  const auto groups = static_cast<size_t>(num_groups(n));
  std::vector<int8_t> q(groups * kGroup);
  std::vector<float> scale(groups);
  std::vector<int32_t> sum(groups);
  table.quantize_g32(x.data(), n, q.data(), scale.data(), sum.data());
  keep(scale);
  out.insert(out.end(), q.begin(), q.end());
  out.insert(out.end(), sum.begin(), sum.end());
  std::vector<int8_t> q64(static_cast<size_t>(num_channel_groups(n)) * kChannelGroup);
  std::vector<int16_t> q16(q64.size());
  table.quantize_g64(x.data(), n, q64.data(), scale.data(), sum.data());
  out.insert(out.end(), q64.begin(), q64.end());
  table.quantize_row16(x.data(), n, q16.data(), scale.data() + scale.size() - 1);
  out.insert(out.end(), q16.begin(), q16.end());
  std::vector<uint16_t> rounded(q64.size());
  table.round_row_bf16(x.data(), n, rounded.data());
  out.insert(out.end(), rounded.begin(), rounded.end());
  keep(scale);
  return out;
}

Status check_elementwise(const KernelTable& table) {
  CaseValues values(3);
  const std::vector<float> x = values.floats(90, -4.0f, 4.0f);
  const std::vector<float> y = values.floats(90, -1.0f, 1.0f);
  return same_bits(run_elementwise(table, x, y), run_elementwise(ref_table(), x, y)) ? Status()
                                                                                     : differs(table, "elementwise");
}

}  // namespace

Status self_check(const KernelTable& table) {
  LOCKSTEP_RETURN_IF_ERROR(check_matmul(table));
  LOCKSTEP_RETURN_IF_ERROR(check_attention(table));
  return check_elementwise(table);
}

}  // namespace lockstep::kernels
