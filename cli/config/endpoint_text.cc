#include "cli/config/endpoint_text.h"

#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/ip/address.hpp>

#include "cli/config/text.h"
#include "launcher/hostfile.h"

namespace elastictrain::cli {

Result<Endpoint> parse_endpoint(const std::string& text) {
  const Error wrong{ErrorCode::kInvalid, "'" + text + "' is not HOST:PORT"};
  Endpoint endpoint;
  std::string port;
  if (!text.empty() && text.front() == '[') {
    const auto end = text.find(']');
    if (end == std::string::npos) return wrong;
    endpoint.host = text.substr(1, end - 1);
    if (end + 1 < text.size() && text[end + 1] != ':') return wrong;
    port = end + 1 < text.size() ? text.substr(end + 2) : "";
  } else {
    const bool has_port = std::count(text.begin(), text.end(), ':') == 1;
    endpoint.host = has_port ? text.substr(0, text.find(':')) : text;
    port = has_port ? text.substr(text.find(':') + 1) : "";
  }
  if (!launcher::is_host_name(endpoint.host)) return wrong;
  if (port.empty()) return text.back() == ':' ? Result<Endpoint>(wrong) : Result<Endpoint>(endpoint);
  const auto number = parse_whole_number(port);
  if (!number || *number == 0 || *number > 65535) return wrong;
  endpoint.port = static_cast<std::uint16_t>(*number);
  return endpoint;
}

bool is_loopback(const Endpoint& endpoint) {
  asio::error_code error;
  const auto address = asio::ip::make_address(endpoint.host, error);
  return endpoint.host == "localhost" || (!error && address.is_loopback());
}

}  // namespace elastictrain::cli
