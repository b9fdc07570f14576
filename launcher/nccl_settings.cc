#include "launcher/nccl_settings.h"

#include <algorithm>

namespace elastictrain::launcher {

std::vector<NcclSetting> nccl_settings(const std::string& interface) {
  std::vector<NcclSetting> settings{
      {"CUDA_MODULE_LOADING", "EAGER",
       "a lazy load waits until the device is idle, and a collective keeps it busy until its peers come"},
      {"NCCL_LAUNCH_ORDER_IMPLICIT", "1",
       "two communicators of one device must start their kernels in the same order on all ranks"},
      {"NCCL_RAS_ENABLE", "0",
       "two jobs on one host fight for its port, 2.26.2 and 2.27.7 crash in it, and losses are noticed without it"}};
  if (!interface.empty()) {
    settings.push_back({"NCCL_SOCKET_IFNAME", "=" + interface, "the interface that the run was told to use"});
  }
  return settings;
}

std::vector<std::string> with_nccl_settings(std::vector<std::string> environment, const std::string& interface) {
  for (const NcclSetting& setting : nccl_settings(interface)) {
    const std::string prefix = setting.name + "=";
    const bool is_set = std::any_of(environment.begin(), environment.end(),
                                    [&](const std::string& entry) { return entry.rfind(prefix, 0) == 0; });
    if (!is_set) environment.push_back(prefix + setting.value);
  }
  return environment;
}

}  // namespace elastictrain::launcher
