// Purpose: a loss that a recovery cannot repair: no worker is left that holds the state. The run starts again from its
// newest checkpoint, or ends.
//
// Ownership and thread: those of the state machine.
#pragma once

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
class Ending;
class FailureJudge;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Startup;
struct Training;
class WorkerControl;

class Restart {
 public:
  Restart(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
          Recovery& recovery, DesiredState& desired, RunEnd& end, FailureJudge& judge, WorkerControl& workers,
          Startup& startup, Ending& ending);

  void lose_state();

 private:
  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  DesiredState& desired_;
  RunEnd& end_;
  FailureJudge& judge_;
  WorkerControl& workers_;
  Startup& startup_;
  Ending& ending_;
};

}  // namespace elastictrain::core
