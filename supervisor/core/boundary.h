// Purpose: what workers report at the boundary between two generations: they train in the new one, they left, or their
// program reached its end.
//
// Ownership and thread: those of the state machine.
#pragma once

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

class Audit;
struct Change;
class ChangeRunner;
class Completion;
class Ending;
class Halt;
class HangDetector;
class NewcomerJudge;
class Outbox;
struct Recovery;
struct RunEnd;
struct TakeoverState;
struct Training;
class WorkerControl;

class Boundary {
 public:
  Boundary(Roster& roster, Outbox& out, Training& training, Change& change, Recovery& recovery, RunEnd& end,
           TakeoverState& resume, HangDetector& hangs, Audit& audit, WorkerControl& workers, ChangeRunner& runner,
           Completion& completion, Halt& halt, Ending& ending, NewcomerJudge& newcomers);

  void on_message(Worker& worker, const protocol::WorkerActive& message);
  void on_message(Worker& worker, const protocol::WorkerLeft& message);
  void on_message(Worker& worker, const protocol::WorkerFinished& message);

 private:
  void end_stray(Worker& worker);

  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  RunEnd& end_;
  TakeoverState& resume_;
  HangDetector& hangs_;
  Audit& audit_;
  WorkerControl& workers_;
  ChangeRunner& runner_;
  Completion& completion_;
  Halt& halt_;
  Ending& ending_;
  NewcomerJudge& newcomers_;
};

}  // namespace elastictrain::core
