// SPDX-License-Identifier: Apache-2.0
// How much memory there is and how much of it we use. Injectable, so that tests can play any machine.
#pragma once

#include <cstdint>

namespace lockstep::engine {

class MemoryProbe {
 public:
  virtual ~MemoryProbe() = default;
  /// The smaller of the cgroup's limit and the machine's memory, bytes.
  virtual int64_t limit_bytes() const = 0;
  /// Resident memory of this process, bytes.
  virtual int64_t resident_bytes() const = 0;
};

/// Reads /proc and /sys/fs/cgroup (v2 and v1).
class SystemMemoryProbe final : public MemoryProbe {
 public:
  int64_t limit_bytes() const override;
  int64_t resident_bytes() const override;
};

}  // namespace lockstep::engine
