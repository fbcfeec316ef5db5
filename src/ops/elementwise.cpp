// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include "base/check.h"
#include "ops/split.h"

namespace lockstep::ops {
namespace {

// Elements of a piece: about 5 us of work each, by the cost of an element.
constexpr int64_t kCheapGrain = 16384;
constexpr int64_t kExpGrain = 4096;
constexpr int64_t kSinCosGrain = 256;

}  // namespace

void embed(const Context& ctx, const Matrix& table, View<const int32_t> ids, View<float> out) {
  LOCKSTEP_CHECK(out.extent(0) == ids.extent(0) && out.extent(1) == table.k());
  for_each_rows(ctx, ids.extent(0), table.k(), kExpGrain, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) table.unpack_row(ids(t), out.row(t));
  });
}

void rms_norm(const Context& ctx, View<const float> x, View<const float> w, float eps, View<float> out) {
  const int64_t n = x.extent(1);
  LOCKSTEP_CHECK(w.extent(0) == n && out.extent(1) == n && out.extent(0) == x.extent(0));
  for_each_rows(ctx, x.extent(0), n, kCheapGrain, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) ctx.kernels->rms_norm(x.row(t), w.data(), eps, n, out.row(t));
  });
}

void head_norm(const Context& ctx, View<float> x, int64_t heads, View<const float> w, float eps) {
  const int64_t dim = w.extent(0);
  LOCKSTEP_CHECK(x.extent(1) == heads * dim);
  for_each_rows(ctx, x.extent(0), heads * dim, kCheapGrain, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        float* head = x.row(t) + h * dim;
        ctx.kernels->rms_norm(head, w.data(), eps, dim, head);
      }
    }
  });
}

void rope_table(const Context& ctx, View<const int32_t> positions, View<const float> inverse_frequencies, float scale,
                View<float> cos, View<float> sin) {
  const int64_t half = inverse_frequencies.extent(0);
  LOCKSTEP_CHECK(cos.extent(1) == half && sin.extent(1) == half);
  for_each_rows(ctx, positions.extent(0), half, kSinCosGrain, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) {
      const auto position = static_cast<float>(positions(t));
      for (int64_t i = 0; i < half; ++i) {
        kernels::sin_cos_ref(inverse_frequencies(i) * position, &sin(t, i), &cos(t, i));
        sin(t, i) *= scale;
        cos(t, i) *= scale;
      }
    }
  });
}

void rope(const Context& ctx, View<float> x, int64_t heads, View<const float> cos, View<const float> sin) {
  const int64_t dim = 2 * cos.extent(1);
  LOCKSTEP_CHECK(x.extent(1) == heads * dim && cos.extent(0) == x.extent(0));
  for_each_rows(ctx, x.extent(0), heads * dim, kCheapGrain, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) {
      for (int64_t h = 0; h < heads; ++h) ctx.kernels->rope(x.row(t) + h * dim, cos.row(t), sin.row(t), dim);
    }
  });
}

void silu_mul(const Context& ctx, View<const float> gate_up, View<float> out) {
  const int64_t n = out.extent(1);
  LOCKSTEP_CHECK(gate_up.extent(1) == 2 * n && gate_up.extent(0) == out.extent(0));
  for_each_rows(ctx, out.extent(0), n, kExpGrain, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) ctx.kernels->silu_mul(gate_up.row(t), gate_up.row(t) + n, n, out.row(t));
  });
}

void add(const Context& ctx, View<float> x, View<const float> y) {
  const int64_t n = x.extent(1);
  LOCKSTEP_CHECK(y.extent(0) == x.extent(0) && y.extent(1) == n);
  for_each_rows(ctx, x.extent(0), n, kCheapGrain, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) ctx.kernels->add(x.row(t), y.row(t), n);
  });
}

void add_bias(const Context& ctx, View<float> x, View<const float> bias) {
  const int64_t n = x.extent(1);
  LOCKSTEP_CHECK(bias.extent(0) == n);
  for_each_rows(ctx, x.extent(0), n, kCheapGrain, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) ctx.kernels->add(x.row(t), bias.data(), n);
  });
}

}  // namespace lockstep::ops
