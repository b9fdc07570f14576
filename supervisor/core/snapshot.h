// Purpose: the run as users, progress lines and policies see it, built on demand.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <unordered_set>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/run_view.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
class FailureJudge;
class HostHealth;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Startup;
struct Training;

class Snapshot {
 public:
  Snapshot(const RunSettings& settings, const Roster& roster, const Outbox& out, const Training& training,
           const Change& change, const Recovery& recovery, const DesiredState& desired, const Startup& startup,
           const RunEnd& end, const HostHealth& health, const FailureJudge& judge);

  RunView view() const;
  RunPhase phase() const;

 private:
  // The workers that take part in the change in flight, for a look at all workers.
  struct InChange {
    std::unordered_set<WorkerId> planned;
    std::unordered_set<WorkerId> leaving;  // at its boundary
  };

  RunPhase shown_phase() const;
  InChange in_change() const;
  WorkerPhase phase_of(const Worker& worker, const InChange& in) const;
  WorkerView view_of(const Worker& worker, const InChange& in) const;
  AgentPhase phase_of(const Agent& agent) const;
  AgentView view_of(const Agent& agent) const;
  void show_failures(RunView& view) const;
  void show_data(RunView& view) const;

  const RunSettings& settings_;
  const Roster& roster_;
  const Outbox& out_;
  const Training& training_;
  const Change& change_;
  const Recovery& recovery_;
  const DesiredState& desired_;
  const Startup& startup_;
  const RunEnd& end_;
  const HostHealth& health_;
  const FailureJudge& judge_;
};

}  // namespace elastictrain::core
