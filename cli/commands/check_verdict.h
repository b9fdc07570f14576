// Purpose: decides whether a run would start, from the findings of `check` on this machine and on the hosts. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/check_hosts.h"

namespace elastictrain::cli {

// Why `run` would end before it asks a host, and with which status.
struct Obstacle {
  std::string text;
  int status = 0;
};

struct CheckFindings {
  std::vector<Obstacle> here;  // on this machine
  std::vector<HostReport> hosts;
  std::uint32_t min_workers = 1;
  std::uint32_t start_workers = 1;
  bool hosts_come_later = false;  // by themselves or on request: too few are no obstacle
};

struct CheckVerdict {
  std::vector<std::string> warnings;  // hosts without which the run starts, and what differs
  std::vector<std::string> problems;
  std::string text;
  int status = 0;  // that `run` would end with; 0: it starts
};

CheckVerdict verdict_on(const CheckFindings& findings);

}  // namespace elastictrain::cli
