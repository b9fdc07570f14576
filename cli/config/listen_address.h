// Purpose: parses the address to listen on, as users write it: "9400", "0.0.0.0:9400", "[::]:9400". Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

struct ListenAddress {
  std::string address = "127.0.0.1";  // numeric; that of this machine alone unless another is named
  std::uint16_t port = 0;             // 0: any free one
};
Result<ListenAddress> parse_listen(std::string_view text);

}  // namespace elastictrain::cli
