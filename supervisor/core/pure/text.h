// Purpose: small pieces of the messages that users read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "supervisor/protocol/counted.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

using protocol::counted;

const char* change_name(protocol::ChangeKind kind);
// Also by a name of an earlier version.
std::optional<protocol::ChangeKind> change_named(std::string_view name);

}  // namespace elastictrain::core
