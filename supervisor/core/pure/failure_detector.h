// Purpose: classifies agents as healthy, suspect or dead from the arrival times of their reports. Sans I/O: the owner
// arms the timers that watch() and look() return, and calls look() when they fire.
//
// A verdict of dead takes two looks: one that finds a silence of `suspect` and a later one that finds a silence of
// `dead`. If our own loop was suspended, the reports that queued up meanwhile are read between the two, so that a late
// timer alone never condemns an agent.
//
// Ownership and thread: those of the state machine that holds it. Cost: O(1) for each arrival, one timer for each
// agent.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

enum class Verdict : std::uint8_t { kHealthy, kSuspect, kDead };

class FailureDetector {
 public:
  struct Look {
    Verdict verdict = Verdict::kHealthy;
    bool changed = false;  // differs from the previous look
    Instant next;          // time of the next look
  };

  FailureDetector(Millis suspect, Millis dead) : suspect_(suspect), dead_(dead) {}

  // Starts watching; returns the time of the first look.
  Instant watch(AgentId agent, Instant now);
  // Returns true if the agent was suspected and no longer is.
  bool on_message(AgentId agent, Instant now);
  Look look(AgentId agent, Instant now);
  void forget(AgentId agent) { records_.erase(agent); }

  // The silence so far; zero for an agent that is not watched.
  Millis silence(AgentId agent, Instant now) const;

 private:
  struct Record {
    Instant last_seen;
    Verdict verdict = Verdict::kHealthy;
  };

  Look look_at_healthy(Record& record, Instant now) const;
  Look look_at_suspect(Record& record, Instant now) const;

  Millis suspect_;
  Millis dead_;
  std::unordered_map<AgentId, Record> records_;
};

}  // namespace elastictrain::core
