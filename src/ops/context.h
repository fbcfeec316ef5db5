// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/thread_pool.h"
#include "kernels/table.h"

namespace lockstep::ops {

/// What every op needs: which kernels, which threads. Passed, never global. One op runs at a time on a context.
struct Context {
  const kernels::KernelTable* kernels = nullptr;
  cpu::ThreadPool* pool = nullptr;
};

}  // namespace lockstep::ops
