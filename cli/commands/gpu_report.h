// Purpose: what `check` says of the GPUs of all hosts: driver, devices, who reaches whom, what can be loaded and what
// is known of it, which network workers use, and where hosts differ, because a mixed NCCL does not work.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/check_hosts.h"

namespace elastictrain::cli {

// Hosts with the same findings are told once. Lines for people; hosts that were not reached are left out.
std::string render_gpus(const std::vector<HostReport>& reports);

// One line for each host.
std::string render_networks(const std::vector<HostReport>& reports);

// A warning for each thing in which the hosts differ; empty where all are the same.
std::string render_differences(const std::vector<HostReport>& reports);

// "4 x NVIDIA H100", "2 x A, 1 x B" or "none".
std::string gpu_words(const HostReport& report);

// What workers get for NCCL and CUDA, unless the user has set it in the environment of this process; empty where no
// host has a GPU.
std::string render_worker_settings(const std::vector<HostReport>& reports, const std::string& interface);

}  // namespace elastictrain::cli
