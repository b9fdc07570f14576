// Purpose: numeric IPv4, IPv6 (with %scope) and abstract Unix addresses for bind and connect. No name lookups.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::comm {

class SocketAddress {
 public:
  static Result<SocketAddress> tcp(const std::string& address, std::uint16_t port);
  static Result<SocketAddress> abstract_unix(const std::string& name);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

// The port that a socket is bound to, or 0 if unknown.
std::uint16_t bound_port(int fd);
// Of both ends of a connected TCP socket, for messages: "10.0.0.2 port 4000 to 10.0.0.1 port 5000".
std::string ends_of(int fd);

}  // namespace elastictrain::comm
