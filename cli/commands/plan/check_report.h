// Purpose: findings of `check` on all hosts, as text for users, and the verdict on them: whether the run would
// start. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/plan/check_hosts.h"

// The part of `check` about the GPUs of all hosts: driver, devices, peer access, loadable libraries and their
// known defects, the network that workers use, and differences between hosts, because mixed NCCL versions do not work.

namespace elastictrain::cli {

// Hosts with the same findings form one group. Text for users. Hosts that were not reached are left out.
std::string render_gpus(const std::vector<HostReport>& reports);

// One line per host.
std::string render_networks(const std::vector<HostReport>& reports);

// A warning for each difference between the hosts; empty if all are the same.
std::string render_differences(const std::vector<HostReport>& reports);

// A warning for each host whose /dev/shm cannot hold the buffers of two communicators; empty if there is none.
std::string render_shortages(const std::vector<HostReport>& reports);

// "4 x NVIDIA H100", "2 x A, 1 x B" or "none".
std::string gpu_text(const HostReport& report);

// What workers get for NCCL and CUDA unless the user has set it in the environment of this process. Empty if no host
// has a GPU.
std::string render_worker_settings(const std::vector<HostReport>& reports, const std::string& interface);

// Decides whether a run would start, from the findings of `check` on this machine and on the hosts. Pure.

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
