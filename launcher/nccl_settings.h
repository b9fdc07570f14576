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

// `interface`: the network interface that the run uses, or empty. `ras_address`: where the worker's RAS service
// listens, or empty. NCCL before 2.24 has none and reads neither.
std::vector<NcclSetting> nccl_settings(const std::string& interface, const std::string& ras_address);

// `environment` ("NAME=value") with the settings that it lacks. Who sets NCCL_RAS_ENABLE is left alone with it.
std::vector<std::string> with_nccl_settings(std::vector<std::string> environment, const std::string& interface,
                                            const std::string& ras_address);

}  // namespace elastictrain::launcher
