// Purpose: what a cluster's lease changes in a run: its hosts and slots, and with them its size. A run with fewer slots
// than it needs waits if it has not begun, and leaves with a checkpoint if it trains; one that is to stand still keeps
// them.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstdint>

#include "supervisor/core/event.h"

namespace elastictrain::core {

struct DesiredState;
class Ending;
class Halt;
class HostList;
class Outbox;
struct Recovery;
class Roster;
struct RunEnd;
struct RunSettings;
struct Startup;
struct TakeoverState;
struct Training;

class Lease {
 public:
  Lease(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, TakeoverState& resume,
        Training& training, Recovery& recovery, DesiredState& desired, RunEnd& end, HostList& hosts, Halt& halt,
        Ending& ending);

  void on(const LeaseGiven& event);
  // Halts the workers where they are, if the lease is to stand still.
  void advance();

 private:
  bool is_left_undone(const LeaseGiven& event) const;
  void wait();
  void suspend();

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Startup& startup_;
  TakeoverState& resume_;
  Training& training_;
  Recovery& recovery_;
  DesiredState& desired_;
  RunEnd& end_;
  HostList& hosts_;
  Halt& halt_;
  Ending& ending_;
  std::uint64_t applied_ = 0;  // the newest version that this supervisor has acted on
};

}  // namespace elastictrain::core
