// Purpose: the part of `check` about the GPUs of all hosts: driver, devices, peer access, loadable libraries and their
// known defects, the network that workers use, and differences between hosts, because mixed NCCL versions do not work.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/check_hosts.h"

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

}  // namespace elastictrain::cli
