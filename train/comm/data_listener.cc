#include "train/comm/data_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "train/comm/socket.h"

namespace elastictrain::comm {
namespace {

constexpr int kBacklog = 1024;
constexpr int kPortAttempts = 20;

// Port 0 lets the kernel choose; the bound port is written back to `port`.
Result<Socket> bind_tcp(const std::string& address, std::uint16_t& port) {
  auto target = SocketAddress::tcp(address, port);
  if (!target) return target.error();
  Socket socket(::socket(target->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return io_error("socket for " + address, errno);
  const int one = 1;
  // One family per socket, so that 0.0.0.0 and :: can share a port.
  if (target->family() == AF_INET6) ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (::bind(socket.fd(), target->get(), target->size()) != 0) {
    return Error{errno == EADDRINUSE ? ErrorCode::kUnavailable : ErrorCode::kIo,
                 "cannot listen on " + address + ": " + std::strerror(errno) +
                     ". Choose an address of this host for the data plane."};
  }
  if (::listen(socket.fd(), kBacklog) != 0) return io_error("listen on " + address, errno);
  if (port == 0) port = bound_port(socket.fd());
  return socket;
}

Result<std::vector<Socket>> bind_all(const std::vector<std::string>& addresses, std::uint16_t& port) {
  std::vector<Socket> sockets;
  for (const auto& address : addresses) {
    auto socket = bind_tcp(address, port);
    if (!socket) return socket.error();
    sockets.push_back(std::move(*socket));
  }
  return sockets;
}

std::string random_unix_name() {
  std::array<std::uint8_t, 16> bytes{};
  [[maybe_unused]] const auto n = ::getrandom(bytes.data(), bytes.size(), 0);
  std::string name = "elastictrain-";
  for (const auto byte : bytes) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

}  // namespace

Result<std::unique_ptr<DataListener>> DataListener::open(const ListenOptions& options) {
  std::unique_ptr<DataListener> listener(new DataListener());
  listener->endpoint_.host_key = options.host_key;
  const auto addresses = options.addresses.empty() ? std::vector<std::string>{"127.0.0.1"} : options.addresses;
  if (auto status = listener->listen_tcp(addresses); !status) return status.error();
  if (auto status = listener->listen_unix(); !status) return status.error();
  return listener;
}

// All addresses share one port. If the port that the kernel chose for the first is taken on another, try the next.
Status DataListener::listen_tcp(const std::vector<std::string>& addresses) {
  for (int attempt = 1;; ++attempt) {
    std::uint16_t port = 0;
    auto sockets = bind_all(addresses, port);
    if (sockets) {
      sockets_ = std::move(*sockets);
      endpoint_.addresses = addresses;
      endpoint_.port = port;
      return {};
    }
    if (sockets.error().code != ErrorCode::kUnavailable || attempt == kPortAttempts) return sockets.error();
  }
}

Status DataListener::listen_unix() {
  endpoint_.unix_name = random_unix_name();
  auto target = SocketAddress::abstract_unix(endpoint_.unix_name);
  if (!target) return target.error();
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return io_error("socket", errno);
  if (::bind(socket.fd(), target->get(), target->size()) != 0) return io_error("bind abstract Unix socket", errno);
  if (::listen(socket.fd(), kBacklog) != 0) return io_error("listen on abstract Unix socket", errno);
  sockets_.push_back(std::move(socket));
  return {};
}

}  // namespace elastictrain::comm
