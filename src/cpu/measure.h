// SPDX-License-Identifier: Apache-2.0
// What this machine can do, for shares of the limit in benchmark reports. Each takes about 0.3 s; not for use while the
// pool serves someone else.
#pragma once

#include "base/status.h"
#include "cpu/thread_pool.h"

namespace lockstep::cpu {

/// Read bandwidth of all threads from memory [GB/s = 1e9 bytes/s], best of several access patterns and tries; the
/// buffer is larger than the last-level cache. kResourceExhausted if it cannot be allocated.
Expected<double> measure_read_gbps(ThreadPool& pool);

/// f32 fused-multiply-add peak of all threads [1e9 floating-point operations/s, two per fma and lane] with the widest
/// registers this CPU has; best of several tries. 0 where the CPU has no AVX2 and FMA.
double measure_fma_gflops(ThreadPool& pool);

/// int8 multiply-add peak of all threads [1e9 operations/s, two per multiply-add]: VNNI's vpdpbusd where this CPU has
/// it, else vpmaddubsw + vpaddw on AVX2; best of several tries. 0 where the CPU has no AVX2.
double measure_int8_gops(ThreadPool& pool);

}  // namespace lockstep::cpu
