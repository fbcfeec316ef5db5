// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_probe.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace lockstep::engine {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// A number in a file; anything else there ("max") or no file: no limit.
int64_t read_limit(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value && value > 0 ? value : kNoLimit;
}

// Limits of the own group and of all above it (v2), from the line "0::/a/b" of /proc/self/cgroup.
int64_t cgroup_limit() {
  int64_t limit =
      std::min(read_limit("/sys/fs/cgroup/memory.max"), read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/'))) {
      limit = std::min(limit, read_limit("/sys/fs/cgroup" + path + "/memory.max"));
    }
  }
  return limit;
}

}  // namespace

int64_t SystemMemoryProbe::limit_bytes() const {
  const int64_t machine = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return std::min(machine, cgroup_limit());
}

int64_t SystemMemoryProbe::resident_bytes() const {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace lockstep::engine
