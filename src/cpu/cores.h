// SPDX-License-Identifier: Apache-2.0
// Which cores this process may use. Inside the room; other rooms see available_cores() in thread_pool.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cpu {

/// Indices of the cores that sched_getaffinity grants, ascending. Empty if the kernel does not say.
std::vector<int> granted_cores();

/// Cores worth of time that a cgroup-v2 "cpu.max" text ("max 100000", "150000 100000") grants, rounded up; 0 = no limit
/// or not understood.
int cores_of_cpu_max(std::string_view text);

/// The tightest quota on this process's path of cgroups, rounded up; 0 = none.
int cgroup_cores();

}  // namespace lockstep::cpu
