// Purpose: the address of a Unix socket in a directory, however long the directory's path: if it does not fit into
// sockaddr_un, the directory is opened and addressed through /proc/self/fd.
// Ownership: holds the directory open; the address is valid as long as this object exists.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::control {

class SocketPath {
 public:
  static Result<SocketPath> in(const std::string& directory);

  ~SocketPath();
  SocketPath(SocketPath&& other) noexcept;
  SocketPath& operator=(SocketPath&&) = delete;

  const std::string& usable() const { return usable_; }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t length() const { return sizeof address_; }

 private:
  SocketPath(int directory, std::string usable);
  int directory_;
  std::string usable_;
  sockaddr_un address_{};
};

}  // namespace elastictrain::control
