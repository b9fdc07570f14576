// Purpose: lists, for `check`, the GPUs that this process sees and the vendor libraries that it can load. It loads what
// it finds, so it runs in a process that ends afterwards (launcher/agent/accelerator_probe.h).
#pragma once

#include "supervisor/protocol/agent_messages.h"

namespace elastictrain::cli {

protocol::AcceleratorFacts find_accelerators();

}  // namespace elastictrain::cli
