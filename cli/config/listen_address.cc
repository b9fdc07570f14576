#include "cli/config/listen_address.h"

#include <charconv>

#include "cli/config/checks.h"

namespace elastictrain::cli {

Result<ListenAddress> parse_listen(std::string_view text) {
  ListenAddress parsed;
  const std::size_t colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    std::string_view address = text.substr(0, colon);
    if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
    parsed.address = address;
  }
  const std::string_view port = colon == std::string_view::npos ? text : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.begin(), port.end(), parsed.port);
  if (error == std::errc() && end == port.end() && check_address(parsed.address).ok()) return parsed;
  return Error{ErrorCode::kInvalid, "'" + std::string(text) +
                                        "' is not a port, or a numeric address and a port, as in 9400, 0.0.0.0:9400 "
                                        "or [::]:9400"};
}

}  // namespace elastictrain::cli
