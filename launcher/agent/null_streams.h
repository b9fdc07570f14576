// Purpose: releases standard streams that belong to the process that started this one, which may wait for their end or
// be gone. Thread: any, while no other thread uses them. Errors: none; without /dev/null they stay as they are.
#pragma once

#include <initializer_list>

namespace elastictrain::launcher {

// Each of these descriptors refers to /dev/null from here on.
void point_at_null(std::initializer_list<int> streams);

}  // namespace elastictrain::launcher
