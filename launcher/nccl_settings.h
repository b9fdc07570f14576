// Purpose: the settings of CUDA and NCCL in a worker's environment that allow communicators to be exchanged at run
// time. Each is set only if it is not set already. Pure.
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
// listens, or empty. NCCL before 2.24 has no such service and reads neither variable.
std::vector<NcclSetting> nccl_settings(const std::string& interface, const std::string& ras_address);

// `environment` ("NAME=value") with the missing settings added. If NCCL_RAS_ENABLE is set, it stays as it is.
std::vector<std::string> with_nccl_settings(std::vector<std::string> environment, const std::string& interface,
                                            const std::string& ras_address);

}  // namespace elastictrain::launcher
