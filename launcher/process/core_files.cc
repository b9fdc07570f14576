#include "launcher/process/core_files.h"

#include <sys/prctl.h>

#include <cstdlib>
#include <string_view>

namespace elastictrain::launcher {

void keep_memory_private() {
  const char* allowed = std::getenv(kCoreFilesVariable);
  if (allowed != nullptr && std::string_view(allowed) == "1") return;
  ::prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace elastictrain::launcher
