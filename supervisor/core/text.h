// Purpose: small pieces of the messages that users read.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

// "1 worker", "3 workers".
std::string counted(std::size_t n, const char* what);

const char* change_name(protocol::ChangeKind kind);
// Also by a name of an earlier version.
std::optional<protocol::ChangeKind> change_named(std::string_view name);

}  // namespace elastictrain::core
