// Purpose: texts that must be a name, a host, an address and so on, checked and parsed. Messages say what is
// allowed. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"

// Reads HOST:PORT, the endpoint at which the commands of a run meet. Pure. Errors: kInvalid with the text.

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

// Parses the address to listen on, as users write it: "9400", "0.0.0.0:9400", "[::]:9400". Pure.

struct ListenAddress {
  std::string address = "127.0.0.1";  // numeric; that of this machine alone unless another is named
  std::uint16_t port = 0;             // 0: any free one
};
Result<ListenAddress> parse_listen(std::string_view text);

// Checks of texts that must be a name, a host, an address and so on. Messages say what is allowed. Pure.

Status check_name(std::string_view text);      // of a run: it becomes a directory
Status check_set(std::string_view text);       // not empty
Status check_module(std::string_view text);    // a Python module's dotted name
Status check_word(std::string_view text);      // no space, no leading dash: it becomes an argument of ssh or ip
Status check_host(std::string_view text);      // "host" or "host:slots"
Status check_endpoint(std::string_view text);  // HOST:PORT
Status check_address(std::string_view text);
Status check_listen(std::string_view text);  // a port, with a numeric address before it or not
Status check_signal(std::string_view text);
Status check_label(std::string_view text);
Status check_ranks(std::string_view text);
Status check_variable_pattern(std::string_view text);
Status check_assignment(std::string_view text);  // NAME=value
Status check_policy(std::string_view text);      // the name of a policy
Status check_companion(std::string_view text);   // of a policy that does not decide on the size
Status check_host_class(std::string_view text);  // pattern=price

// Number of "USR1", "SIGUSR1" or "10"; 0 if there is no such signal or it cannot be forwarded.
int signal_number(std::string_view name);

}  // namespace elastictrain::cli
