#include "train/comm/round_trip.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

namespace elastictrain::comm {

double round_trip_us(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  constexpr std::size_t kNeeded = offsetof(tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt;
  if (size < kNeeded || info.tcpi_min_rtt == UINT32_MAX) return 0;
  return info.tcpi_min_rtt;
}

}  // namespace elastictrain::comm
