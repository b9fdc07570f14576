// Purpose: the whole state of a run as one record of the journal, for a supervisor that finds records missing.
//
// Ownership and thread: those of the state machine.
#pragma once

#include "supervisor/core/action.h"
#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
struct Recovery;
struct RunEnd;
struct TakeoverState;
struct Training;

class StateRecord {
 public:
  StateRecord(const Roster& roster, const Training& training, const Change& change, const Recovery& recovery,
              const DesiredState& desired, const TakeoverState& takeover, const RunEnd& end);

  Journal make(Instant now) const;

 private:
  void record_members(record::RunState& state) const;
  void record_hosts(record::RunState& state) const;
  void record_lease(record::RunState& state) const;
  void record_workers(record::RunState& state) const;
  void record_change(record::RunState& state) const;

  const Roster& roster_;
  const Training& training_;
  const Change& change_;
  const Recovery& recovery_;
  const DesiredState& desired_;
  const TakeoverState& takeover_;
  const RunEnd& end_;
};

}  // namespace elastictrain::core
