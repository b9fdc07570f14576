#include "train/comm/peer_credentials.h"

#include <sys/socket.h>
#include <unistd.h>

namespace elastictrain::comm {
namespace {

bool credentials(int fd, ucred& found) {
  socklen_t size = sizeof found;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &size) == 0;
}

}  // namespace

bool peer_has_own_uid(int unix_fd) {
  ucred found{};
  return credentials(unix_fd, found) && found.uid == ::geteuid();
}

pid_t peer_pid(int unix_fd) {
  ucred found{};
  return credentials(unix_fd, found) ? found.pid : 0;
}

}  // namespace elastictrain::comm
