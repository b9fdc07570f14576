// Purpose: tries on this machine, before a run needs it, to write checkpoints and logs where the configuration says.
// Thread: any. Errors: kIo, with the directory, the system's reason and what to do.
#pragma once

#include <optional>
#include <string>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// log.directory, which need not exist yet. Empty: there is none.
Status try_log_directory(const std::string& directory);

// Writes a file there and removes it. Makes no directory: of one that does not exist yet, the nearest existing
// directory above it must be writable.
Status try_checkpoint_directory(const std::string& directory);

// For a run that is started again: `saved` is the step of its newest checkpoint as its journal says. kNoInput: there is
// no checkpoint at all.
Status require_checkpoints(const std::string& directory, std::optional<Step> saved, const std::string& run);

// The journal's newest checkpoint that was written or read.
std::optional<Step> saved_step(const std::string& journal_path);

}  // namespace elastictrain::cli
