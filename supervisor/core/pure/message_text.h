// Purpose: texts that users read: names and counts, exits and causes of an end, and the difference between two
// workers' states. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/core/pure/event.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/plan_messages.h"

// Small pieces of the messages that users read.

namespace elastictrain::core {

using protocol::counted;

const char* change_name(protocol::ChangeKind kind);
// Also by a name of an earlier version.
std::optional<protocol::ChangeKind> change_named(std::string_view name);

// Exits of workers, and causes of a requested end, as statuses and texts.

inline constexpr std::int32_t kSignalKill = 9;
inline constexpr std::int32_t kSignalTerm = 15;

std::string exit_text(const WorkerExited& event);
// The status that a shell would show, without the values that shells and batch systems use for their own errors.
int exit_status_of(const WorkerExited& event);
// ": " and what explains the exit: the exception of Python's last traceback, or the last line that is not empty.
// Nothing where the process was ended from outside or ended well. All lines are in the journal and in the output.
std::string last_words(const WorkerExited& event);

// Of a requested end.
int status_of(StopCause cause);
const char* reason_of(StopCause cause);

// The first difference between the states of two workers, for people. Pure.
// Thread: any. Failure: none; texts that are cut are compared as far as they go.

// `mine` and `others`: a line for each item (protocol::WorkerReady::state_items). Returns the first difference as a
// part of a sentence about the worker with `mine`.
std::string first_difference(std::string_view mine, std::string_view others);

}  // namespace elastictrain::core
