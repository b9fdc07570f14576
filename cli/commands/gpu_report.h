// Purpose: what `check` says of the GPUs of the machine that it runs on: driver, devices, who reaches whom, compiler of
// kernels, NCCL with what is known of its version, and what workers are told about it. Loads what it finds.
#pragma once

#include <string>

namespace elastictrain::cli {

// `interface`: the run's network interface, or empty. Lines for people.
std::string render_gpus(const std::string& interface);

}  // namespace elastictrain::cli
