// Purpose: commands that run as processes on the hosts of a run: agent, built-in trainer, the maker of NCCL's ids,
// and the list of accelerators.
#pragma once

#include "supervisor/protocol/agent_messages.h"

// Lists, for `check`, the GPUs that this process sees and the vendor libraries that it can load. It loads what
// it finds, so it runs in a process that ends afterwards (launcher/agent/accelerator_probe.h).

namespace elastictrain::cli {

protocol::AcceleratorFacts find_accelerators();

}  // namespace elastictrain::cli
