// Purpose: judges the exit of a worker: expected, a failed joiner, or the loss of a member.
//
// Ownership and thread: those of the state machine.
#pragma once

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
class Ending;
class FailureJudge;
class Halt;
class NewcomerJudge;
class Outbox;
class PlainRestart;
struct RunEnd;
struct Startup;
struct Training;
class WorkerControl;

class ExitJudge {
 public:
  ExitJudge(Roster& roster, Outbox& out, Startup& startup, Training& training, Change& change, RunEnd& end,
            WorkerControl& workers, Ending& ending, Halt& halt, FailureJudge& judge, PlainRestart& plain,
            NewcomerJudge& newcomers);

  void on(const WorkerExited& event);

 private:
  void judge_exit(const Worker& worker, const WorkerExited& event);
  void judge_unfinished_exit(const Worker& worker, const WorkerExited& event);

  Roster& roster_;
  Outbox& out_;
  Startup& startup_;
  Training& training_;
  Change& change_;
  RunEnd& end_;
  WorkerControl& workers_;
  Ending& ending_;
  Halt& halt_;
  FailureJudge& judge_;
  PlainRestart& plain_;
  NewcomerJudge& newcomers_;
};

}  // namespace elastictrain::core
