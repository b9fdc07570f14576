// Purpose: the memory controller's group (cgroup v1 or v2) of a process: the limit that holds there, and how often the
// kernel's OOM killer has ended a process of it.
//
// Thread: any; reads short files below `root`. Errors: no group where no controller is mounted or it cannot be read;
// the count of a group that has gone stays 0.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace elastictrain::launcher {

class MemoryGroup {
 public:
  static std::optional<MemoryGroup> of(pid_t pid, const std::string& root = "");

  // Processes of the group, or of one below it, that the kernel has ended for want of memory, whoever set the limit.
  std::uint64_t kills() const;
  // The least of the group and of those above it; 0: none has a limit.
  std::uint64_t limit_bytes() const;

 private:
  enum class Version : std::uint8_t { k1, k2 };

  MemoryGroup(Version version, std::vector<std::string> directories)
      : version_(version), directories_(std::move(directories)) {}

  Version version_;
  std::vector<std::string> directories_;  // its own first, then those above it
};

}  // namespace elastictrain::launcher
