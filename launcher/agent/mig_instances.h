// Purpose: a MIG instance for each worker. CUDA shows a process only the first of the instances that
// CUDA_VISIBLE_DEVICES lists, so a worker is given that of its slot. Pure.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::launcher {

// A worker's environment ("NAME=value"), unchanged unless CUDA_VISIBLE_DEVICES lists several MIG instances.
std::vector<std::string> with_own_mig_instance(std::vector<std::string> environment);

}  // namespace elastictrain::launcher
