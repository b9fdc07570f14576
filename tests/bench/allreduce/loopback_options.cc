// Prints the socket options of our loopback connections as one JSON object: this benchmark's figures depend on them.
#include <cstdio>

#include "loopback.h"

int main() {
  using namespace elastictrain;
  const auto [socket, far] = bench::connect_over_loopback();
  comm::tune_tcp(socket.fd());
  const auto options = comm::tcp_options(socket.fd());
  std::printf("{\"congestion_control\": \"%s\", \"send_buffer_bytes\": %d, \"receive_buffer_bytes\": %d}\n",
              options.congestion_control.c_str(), options.send_buffer_bytes, options.receive_buffer_bytes);
  return 0;
}
