#include "launcher/process/boot_id.h"

#include <fstream>

namespace elastictrain::launcher {

std::string boot_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

}  // namespace elastictrain::launcher
