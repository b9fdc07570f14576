// Purpose: reads HOST:PORT, the endpoint at which the commands of a run meet. Pure. Errors: kInvalid with the text.
#pragma once

#include <cstdint>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

inline constexpr std::uint16_t kEndpointPort = 29400;  // as torchrun's

struct Endpoint {
  std::string host;
  std::uint16_t port = kEndpointPort;
};
// "host", "host:port", "fd00::1", "[fd00::1]:port".
Result<Endpoint> parse_endpoint(const std::string& text);

// Whether it can be reached from this machine alone.
bool is_loopback(const Endpoint& endpoint);

}  // namespace elastictrain::cli
