#include "launcher/nccl_settings.h"

#include <algorithm>

namespace elastictrain::launcher {
namespace {

constexpr char kRasAddress[] = "NCCL_RAS_ADDR";

bool is_set(const std::vector<std::string>& environment, const std::string& name) {
  return std::any_of(environment.begin(), environment.end(),
                     [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

}  // namespace

std::vector<NcclSetting> nccl_settings(const std::string& interface, const std::string& ras_address) {
  std::vector<NcclSetting> settings{
      {"CUDA_MODULE_LOADING", "LAZY",
       "eager loading of cuBLAS and others takes seconds and up to a gigabyte; NCCL's own kernels are loaded before "
       "ready"},
      {"NCCL_RUNTIME_CONNECT", "0",
       "communicators connect while they are built in the background, not in the first buckets after a swap"},
      {"NCCL_SOCKET_RETRY_SLEEP_MSEC", "20",
       "the end of a build whose peer does not come waits for the pause between two tries, which grows with each try"},
      {"NCCL_LAUNCH_ORDER_IMPLICIT", "1",
       "two communicators of one device must start their kernels in the same order on all ranks"}};
  if (!ras_address.empty()) {
    settings.push_back(
        {kRasAddress, ras_address,
         "the service that reports hangs listens there; its default port would be shared by all jobs of the host"});
  }
  if (!interface.empty()) {
    settings.push_back({"NCCL_SOCKET_IFNAME", "=" + interface, "the network interface of the run"});
  }
  return settings;
}

std::vector<std::string> with_nccl_settings(std::vector<std::string> environment, const std::string& interface,
                                            const std::string& ras_address) {
  const bool ras_is_the_users = is_set(environment, "NCCL_RAS_ENABLE");
  for (const NcclSetting& setting : nccl_settings(interface, ras_is_the_users ? "" : ras_address)) {
    if (!is_set(environment, setting.name)) environment.push_back(setting.name + "=" + setting.value);
  }
  return environment;
}

}  // namespace elastictrain::launcher
