// Purpose: the processes of workers that a shrink has let go, as long as their agents keep them: which of them may
// stay. A worker that is to start in such a slot takes the process (WorkerControl); Planner offers these slots first.
//
// Ownership and thread: those of the state machine.
#pragma once

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

class HostHealth;
class Outbox;
struct RunEnd;
struct RunSettings;
struct Training;

class Warm {
 public:
  Warm(const RunSettings& settings, Roster& roster, Outbox& out, const Training& training, const RunEnd& end,
       const HostHealth& health);

  void on(const WarmReported& event);
  // Ends those whose slot is needed, or must not be used any more.
  void advance();

 private:
  bool may_stay(const Agent& agent, const protocol::WarmProcess& process) const;
  void end(const Agent& agent, const protocol::WarmProcess& process);

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  const Training& training_;
  const RunEnd& end_;
  const HostHealth& health_;
};

}  // namespace elastictrain::core
