// Purpose: tries hosts for `check`. Starts an agent on each host in parallel, waits for it to connect and report its
// host, and ends it. Blocking; has its own event loop. Leaves nothing behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/run/run_plan.h"
#include "supervisor/protocol/agent_messages.h"

namespace elastictrain::cli {

struct HostReport {
  std::string host;
  std::uint32_t slots = 0;
  bool reached = false;
  std::string problem;  // why it was not reached, from the launcher
  std::string binary_version;
  std::uint32_t cores = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<std::string> gpus;  // from the kernel driver's list
  std::string kernel_driver;
  protocol::AcceleratorFacts accelerators;
  std::string interface;               // the one that carries the data plane
  std::vector<std::string> addresses;  // of the data plane
  std::string interface_problem;
  std::string nccl_interface;   // value of NCCL_SOCKET_IFNAME for workers
  std::string program_problem;  // why the program cannot be started there
  int program_status = 0;       // 126 or 127, if it is the program itself
  std::string missing_file;     // what the program would not find there
  std::string interpreter;      // of a Python program
  std::string connected_from;
  double start_s = 0;  // from the launch until the agent connected
  double round_trip_s = 0;
  double clock_difference_s = 0;  // of the host relative to ours; exact to half a round trip

  // Why no worker can be started there; empty: nothing is known to be wrong.
  const std::string& obstacle() const {
    if (!problem.empty()) return problem;
    return interface_problem.empty() ? program_problem : interface_problem;
  }
};

Result<std::vector<HostReport>> check_hosts(const RunConfig& config, const RunPlan& plan);

}  // namespace elastictrain::cli
