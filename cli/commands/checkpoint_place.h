// Purpose: whether checkpoints can be written where the configuration says, tried on this machine before a run needs
// it. Thread: any. Errors: kIo, with the directory, the system's reason and what to do.
#pragma once

#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// Writes a file there and removes it. Makes no directory: of one that does not exist yet, the nearest existing
// directory above it must be writable.
Status try_checkpoint_directory(const std::string& directory);

}  // namespace elastictrain::cli
