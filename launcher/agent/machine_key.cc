#include "launcher/agent/machine_key.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace elastictrain::launcher {

std::string machine_key() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  if (boot.empty() || error) return "";
  return boot + "." + network.string() + "." + std::to_string(::geteuid());
}

}  // namespace elastictrain::launcher
