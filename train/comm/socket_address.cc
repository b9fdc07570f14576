#include "train/comm/socket_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

namespace elastictrain::comm {
namespace {

std::string numeric(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + " port " + port;
}

}  // namespace

Result<SocketAddress> SocketAddress::tcp(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0 || found == nullptr) {
    return Error{ErrorCode::kInvalid, "\"" + address + "\" is not a numeric IPv4 or IPv6 address"};
  }
  SocketAddress result;
  std::memcpy(&result.storage_, found->ai_addr, found->ai_addrlen);
  result.size_ = found->ai_addrlen;
  ::freeaddrinfo(found);
  return result;
}

Result<SocketAddress> SocketAddress::abstract_unix(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof address.sun_path) {
    return Error{ErrorCode::kInvalid, "the name of an abstract Unix socket is empty or too long"};
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  SocketAddress result;
  result.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  std::memcpy(&result.storage_, &address, result.size_);
  return result;
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);
  return 0;
}

std::string ends_of(int fd) {
  sockaddr_storage peer{};
  sockaddr_storage own{};
  socklen_t peer_size = sizeof peer;
  socklen_t own_size = sizeof own;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return "closed by now";
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return "closed by now";
  return numeric(peer, peer_size) + " to " + numeric(own, own_size);
}

}  // namespace elastictrain::comm
