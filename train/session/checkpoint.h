// Purpose: the replicated state as a safetensors file: a JSON header (one entry per shared buffer, raw bytes; the run's
// numbers as metadata) and the bytes. Named step-<step>.gen-<generation>.safetensors; the newest kKept are kept.
//
// Thread: training thread, at a step boundary. Failure: a file that cannot be written is an Error and leaves nothing
// behind; a file appears under its name only when it is complete and synced.
#pragma once

#include <string>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "train/state/progress.h"
#include "train/state/state_buffers.h"

namespace elastictrain::session {

inline constexpr std::size_t kKeptCheckpoints = 3;

Status write_checkpoint(const std::string& directory, Generation generation, const state::Progress& progress,
                        const state::StateBuffers& buffers);

// Fills the buffers from the newest checkpoint and returns its numbers. No checkpoint at all is kUnavailable.
Result<state::Progress> load_newest_checkpoint(const std::string& directory, const state::StateBuffers& buffers);

}  // namespace elastictrain::session
