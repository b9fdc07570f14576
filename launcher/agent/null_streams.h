// Purpose: lets go of standard streams that belong to whoever started this process, who may wait for their end or be
// gone. Thread: any, while nobody else uses them. Failure: none; without /dev/null they stay as they are.
#pragma once

#include <initializer_list>

namespace elastictrain::launcher {

// Each of these descriptors is /dev/null from here on.
void point_at_null(std::initializer_list<int> streams);

}  // namespace elastictrain::launcher
