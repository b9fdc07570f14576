#include "launcher/agent/reserved_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace elastictrain::launcher {

Result<ReservedPort> ReservedPort::take() {
  ReservedPort port;
  port.socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  const int yes = 1;
  if (port.socket_ < 0 || ::setsockopt(port.socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::setsockopt(port.socket_, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0 ||
      ::bind(port.socket_, generic, size) != 0 || ::getsockname(port.socket_, generic, &size) != 0) {
    return Error{ErrorCode::kIo, std::string("no free port on 127.0.0.1: ") + std::strerror(errno)};
  }
  port.number_ = ntohs(address.sin_port);
  return port;
}

ReservedPort::ReservedPort(ReservedPort&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), number_(std::exchange(other.number_, 0)) {}

ReservedPort& ReservedPort::operator=(ReservedPort&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(number_, other.number_);
  return *this;
}

ReservedPort::~ReservedPort() {
  if (socket_ >= 0) ::close(socket_);
}

std::string ReservedPort::address() const {
  return "127.0.0.1:" + std::to_string(number_);
}

}  // namespace elastictrain::launcher
