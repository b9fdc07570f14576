#include "launcher/agent/machine_key.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "launcher/process/boot_id.h"

namespace elastictrain::launcher {

std::string machine_key() {
  const std::string boot = boot_id();
  std::error_code error;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  if (boot.empty() || error) return "";
  return boot + "." + network.string() + "." + std::to_string(::geteuid());
}

}  // namespace elastictrain::launcher
