#include "supervisor/control/control_protocol.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace elastictrain::control {

Result<SocketPath> SocketPath::in(const std::string& directory) {
  const std::string whole = directory + "/" + kSocketName;
  if (whole.size() < sizeof(sockaddr_un::sun_path)) return SocketPath(-1, whole);
  const int opened = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) {
    return Error{ErrorCode::kUnavailable, "cannot open " + directory + ": " + std::strerror(errno)};
  }
  SocketPath path(opened, "/proc/self/fd/" + std::to_string(opened) + "/" + kSocketName);
  if (::access("/proc/self/fd", X_OK) != 0) {
    return Error{ErrorCode::kUnavailable, whole +
                                              " is too long for a socket and /proc is not mounted; "
                                              "set ELASTICTRAIN_STATE_DIR to a shorter path"};
  }
  return path;
}

SocketPath::SocketPath(int directory, std::string usable) : directory_(directory), usable_(std::move(usable)) {
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, usable_.c_str(), usable_.size() + 1);
}

SocketPath::~SocketPath() {
  if (directory_ >= 0) ::close(directory_);
}

SocketPath::SocketPath(SocketPath&& other) noexcept
    : directory_(std::exchange(other.directory_, -1)), usable_(std::move(other.usable_)), address_(other.address_) {}

}  // namespace elastictrain::control
