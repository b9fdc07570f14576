#include "launcher/agent/null_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace elastictrain::launcher {

void point_at_null(std::initializer_list<int> streams) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int stream : streams) ::dup2(null, stream);
  if (null > STDERR_FILENO) ::close(null);
}

}  // namespace elastictrain::launcher
