// Purpose: says how the traffic between a run's hosts is protected, and what of it is not. Pure.
#pragma once

#include <string>

#include "cli/config/run_config.h"

namespace elastictrain::cli {

// One line, without its end, for `check`, --dry-run and `status`: without GPUs.
std::string describe_protection(const NetworkConfig& network);

// What network.encryption promises and the chosen back end cannot keep between hosts; empty: nothing.
std::string left_in_clear(const NetworkConfig& network);

// The same where hosts have GPUs and the back end is chosen by them; empty: nothing.
std::string gpus_leave_in_clear(const NetworkConfig& network);

}  // namespace elastictrain::cli
