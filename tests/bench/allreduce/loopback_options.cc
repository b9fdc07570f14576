// Prints the socket options of our loopback connections as one JSON object: this benchmark's figures depend on them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>

#include "supervisor/protocol/result.h"
#include "train/comm/socket.h"

int main() {
  using namespace elastictrain;
  comm::Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  comm::Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool connected = ::bind(listener.fd(), generic, size) == 0 && ::listen(listener.fd(), 1) == 0 &&
                         ::getsockname(listener.fd(), generic, &size) == 0 &&
                         ::connect(socket.fd(), generic, size) == 0;
  if (!connected) panic("no connection over loopback");
  comm::tune_tcp(socket.fd());
  const auto options = comm::tcp_options(socket.fd());
  std::printf("{\"congestion_control\": \"%s\", \"send_buffer_bytes\": %d, \"receive_buffer_bytes\": %d}\n",
              options.congestion_control.c_str(), options.send_buffer_bytes, options.receive_buffer_bytes);
  return 0;
}
