// Purpose: causes of a requested end as statuses and texts.
#pragma once

#include "supervisor/core/event.h"

namespace elastictrain::core {

int status_of(StopCause cause);
const char* reason_of(StopCause cause);

}  // namespace elastictrain::core
