// Purpose: which events are handled in which phase of a run, and which phase may follow which, as two tables that a
// reader can check line by line and a test checks for completeness.
#pragma once

#include <cstddef>
#include <cstdint>

#include "supervisor/core/event.h"
#include "supervisor/core/run_view.h"

namespace elastictrain::core {

enum class Handling : std::uint8_t {
  kHandle,  // the state machine acts on it
  kRefuse,  // a request: answered with a refusal, nothing else happens
  kIgnore,  // has no effect any more
};

inline constexpr std::size_t kPhases = 5;  // RunPhase

// Name of the event's class, as the journal and the tables use it.
const char* name_of(const Event& event);
const char* name_of(RunPhase phase);

Handling handling(RunPhase phase, const Event& event);

// Returns whether a step may leave the run in `to` when it found it in `from`.
bool may_follow(RunPhase from, RunPhase to);

}  // namespace elastictrain::core
