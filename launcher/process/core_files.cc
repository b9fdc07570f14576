#include "launcher/process/core_files.h"

#include <sys/prctl.h>

namespace elastictrain::launcher {

void keep_memory_private() {
  ::prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace elastictrain::launcher
