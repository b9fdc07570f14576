// Purpose: what GPUs this process sees and which of the vendors' libraries it can load, for `check`. Loads what it
// finds: for a process that is thrown away afterwards (launcher/agent/accelerator_probe.h).
#pragma once

#include "supervisor/protocol/message.h"

namespace elastictrain::cli {

protocol::AcceleratorFacts find_accelerators();

}  // namespace elastictrain::cli
