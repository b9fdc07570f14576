// Purpose: keys of notes that the library writes and the supervisor acts on. A program's own notes have other keys.
#pragma once

#include <string_view>

namespace elastictrain::protocol {

// The worker asks for another one in its place: a process other than its agent has sent it TERM, the first one, which
// it survives, or its process holds too much that a library leaks. May arrive twice.
inline constexpr std::string_view kTermNote = "elastictrain.term";
// The program wrote more notes than a run keeps. The value says how many and what the limit is.
inline constexpr std::string_view kNotesDropped = "elastictrain.notes_dropped";

// About checkpoints. The values of the first two begin with the step.
inline constexpr std::string_view kCheckpointWritten = "checkpoint_written";  // not more often than every few seconds
inline constexpr std::string_view kCheckpointResumed = "checkpoint_resumed";
inline constexpr std::string_view kCheckpointFailed = "checkpoint_failed";
inline constexpr std::string_view kCheckpointLate = "checkpoint_late";
inline constexpr std::string_view kCheckpointFencedOut = "checkpoint_fenced_out";
inline constexpr std::string_view kCheckpointSkipped = "checkpoint_skipped";
inline constexpr std::string_view kCheckpointUnused = "checkpoint_unused";  // the run starts at its first step
inline constexpr std::string_view kCheckpointNone = "checkpoint_none";
inline constexpr std::string_view kCheckpointUnattached = "checkpoint_unattached";  // nothing was attached to its step

}  // namespace elastictrain::protocol
