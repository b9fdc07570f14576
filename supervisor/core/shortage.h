// Purpose: a recovery that leaves fewer workers than must train. They wait, halted, until others are ready to join
// them; the time for which they wait is bounded, and the run ends in order when it is over.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
class Ending;
class Outbox;
class Planner;
class Reconciler;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Startup;
struct Training;

class Shortage {
 public:
  Shortage(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
           Recovery& recovery, Startup& startup, RunEnd& end, Planner& planner, Reconciler& reconciler, Ending& ending);

  // Starts the workers that are needed. The members of the next generation once enough of them are ready, else none.
  std::vector<WorkerId> fill();
  void expired();

 private:
  void begin_to_wait();
  std::string left() const;

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  Startup& startup_;
  RunEnd& end_;
  Planner& planner_;
  Reconciler& reconciler_;
  Ending& ending_;
};

}  // namespace elastictrain::core
