// Purpose: one TCP connection over loopback, before our socket options are set.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "supervisor/protocol/result.h"
#include "train/comm/socket.h"

namespace elastictrain::bench {

// Both ends. Ends the program if there is no loopback.
inline std::pair<comm::Socket, comm::Socket> connect_over_loopback() {
  comm::Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  comm::Socket near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool connected = ::bind(listener.fd(), generic, size) == 0 && ::listen(listener.fd(), 1) == 0 &&
                         ::getsockname(listener.fd(), generic, &size) == 0 && ::connect(near.fd(), generic, size) == 0;
  if (!connected) panic("no connection over loopback");
  return {std::move(near), comm::Socket(::accept(listener.fd(), nullptr, nullptr))};
}

}  // namespace elastictrain::bench
