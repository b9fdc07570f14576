// Purpose: parses one line of a client into its request. Pure; a malformed line is an Error with a text for the client.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "supervisor/core/pure/event.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::control {

struct StatusRequest {};
struct StopNowRequest {};

// A core event carries the request id given to parse_request().
using Request = std::variant<StatusRequest, StopNowRequest, core::Event>;

Result<Request> parse_request(const std::string& line, std::uint64_t request_id);

std::string answer_line(bool ok, const std::string& text);

}  // namespace elastictrain::control
