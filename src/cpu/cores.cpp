// SPDX-License-Identifier: Apache-2.0
#include "cpu/cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "cpu/thread_pool.h"

namespace lockstep::cpu {
namespace {

constexpr const char* kCgroupRoot = "/sys/fs/cgroup";
constexpr int kMaxCores = 1 << 16;

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

int64_t parse_int(std::string_view text) {
  int64_t value = -1;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() ? value : -1;
}

int quota_to_cores(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<int64_t>(kMaxCores, (quota - 1) / period + 1));
}

int tighter(int a, int b) {
  if (a == 0) return b;
  return b == 0 ? a : std::min(a, b);
}

/// This process's path in the v2 hierarchy ("/a/b"), from a line "0::/a/b" of /proc/self/cgroup.
std::string cgroup_v2_path() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) return line.substr(3);
  }
  return "/";
}

}  // namespace

std::vector<int> granted_cores() {
  std::vector<int> cores;
  // The kernel refuses a mask smaller than its own: double until it fits.
  for (int limit = CPU_SETSIZE; limit <= kMaxCores; limit *= 2) {
    const auto count = static_cast<size_t>(limit);
    cpu_set_t* set = CPU_ALLOC(count);
    if (set == nullptr) return cores;
    const size_t bytes = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(bytes, set);
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    for (int core = 0; ok && core < limit; ++core) {
      if (CPU_ISSET_S(static_cast<size_t>(core), bytes, set)) cores.push_back(core);
    }
    CPU_FREE(set);
    if (ok) break;
  }
  return cores;
}

int cores_of_cpu_max(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return 0;
  return quota_to_cores(parse_int(text.substr(0, space)), parse_int(text.substr(space + 1)));
}

int cgroup_cores() {
  int cores = 0;
  for (std::string path = cgroup_v2_path(); !path.empty() && path != "/"; path.resize(path.rfind('/'))) {
    cores = tighter(cores, cores_of_cpu_max(read_text(kCgroupRoot + path + "/cpu.max")));
  }
  // Inside a container the process's own group may be mounted as the root.
  cores = tighter(cores, cores_of_cpu_max(read_text(std::string(kCgroupRoot) + "/cpu.max")));
  const std::string v1 = std::string(kCgroupRoot) + "/cpu/cpu.cfs_";
  return tighter(cores, quota_to_cores(parse_int(read_text(v1 + "quota_us")), parse_int(read_text(v1 + "period_us"))));
}

int available_cores() {
  const int granted = std::max(1, static_cast<int>(granted_cores().size()));
  const int quota = cgroup_cores();
  return quota > 0 ? std::min(granted, quota) : granted;
}

}  // namespace lockstep::cpu
