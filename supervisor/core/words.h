// Purpose: small pieces of the messages that users read.
#pragma once

#include <cstddef>
#include <string>

#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

// "1 worker", "3 workers".
std::string counted(std::size_t n, const char* what);

const char* change_name(protocol::ChangeKind kind);

}  // namespace elastictrain::core
