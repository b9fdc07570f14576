// Purpose: the phases of a run, which events are handled in which of them, and which may follow which, as two tables
// that a reader can check line by line and a test checks for completeness.
#pragma once

#include <cstddef>
#include <cstdint>

#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/run_view.h"

namespace elastictrain::core {

enum class Handling : std::uint8_t {
  kHandle,  // the state machine acts on it
  kRefuse,  // a request: answered with a refusal, nothing else happens
  kIgnore,  // has no effect any more
};

enum class Phase : std::uint8_t {
  kStarting,    // no generation trains yet, or none again after all state was lost
  kResuming,    // taken over, and not all agents are back
  kTraining,    // nothing is in flight
  kChanging,    // a planned change is in flight
  kHalted,      // after a loss: every worker reports its last step
  kBelowMin,    // too few workers are left: they wait for others
  kRecovering,  // the generation that follows a loss is being built
  kEnding,
  kEnded,
};
inline constexpr std::size_t kPhases = 9;

// Name of the event's class, as the journal and the tables use it.
const char* name_of(const Event& event);
const char* name_of(Phase phase);
// As users see them.
const char* name_of(RunPhase phase);
const char* name_of(AgentPhase phase);

Handling handling(Phase phase, const Event& event);

// Returns whether a step may leave the run in `to` when it found it in `from`.
bool may_follow(Phase from, Phase to);

}  // namespace elastictrain::core
