// Purpose: what a worker's environment has to say to CUDA and NCCL so that communicators can be exchanged while they
// run. Each is set only where nobody else has set it. Pure.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::launcher {

struct NcclSetting {
  std::string name;
  std::string value;
  std::string reason;
};

// `interface`: the network interface that the run uses, or empty.
std::vector<NcclSetting> nccl_settings(const std::string& interface);

// `environment` ("NAME=value") with the settings that it lacks.
std::vector<std::string> with_nccl_settings(std::vector<std::string> environment, const std::string& interface);

}  // namespace elastictrain::launcher
