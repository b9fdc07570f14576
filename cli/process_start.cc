#include "cli/process_start.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace elastictrain::cli {
namespace {

// Threads get as much as the limit says.
constexpr rlim_t kLeastStackBytes = 512 << 10;

// The lowest number that is free is the one that open() gives.
void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
  }
}

}  // namespace

Status prepare_process() {
  open_standard_streams();
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeastStackBytes) return {};
  return Error{ErrorCode::kUnavailable, "the stack is limited to " + std::to_string(stack.rlim_cur >> 10) +
                                            " KiB, at least " + std::to_string(kLeastStackBytes >> 10) +
                                            " are needed; raise the limit with ulimit -s 8192"};
}

}  // namespace elastictrain::cli
