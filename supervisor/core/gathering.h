// Purpose: from the answers of the halted workers to the generation that follows a loss: those that hold the newest
// state continue together, and others may have to join them first.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
class ChangeRunner;
class Completion;
struct DesiredState;
class Ending;
class FailureJudge;
class Halt;
class HangJudge;
class Outbox;
class Planner;
class Reconciler;
struct Recovery;
class Restart;
struct RunEnd;
struct RunSettings;
struct Startup;
struct Training;
class WorkerControl;

class Gathering {
 public:
  Gathering(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
            Recovery& recovery, DesiredState& desired, Startup& startup, RunEnd& end, FailureJudge& judge,
            HangJudge& hang_judge, ChangeRunner& runner, Completion& completion, WorkerControl& workers,
            Planner& planner, Reconciler& reconciler, Halt& halt, Restart& restart, Ending& ending);

  void advance();
  void prepare_timed_out();
  void leave_out(std::set<WorkerId> guilty, const std::string& why);
  void wait_for_min_expired();
  void end_recovery();

 private:
  bool all_ended_in_order() const;
  void gather_recovery();
  void gather_joiners();
  void prepare_recovery(std::vector<WorkerId> members);
  void prepare_stop();

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  DesiredState& desired_;
  Startup& startup_;
  RunEnd& end_;
  FailureJudge& judge_;
  HangJudge& hang_judge_;
  ChangeRunner& runner_;
  Completion& completion_;
  WorkerControl& workers_;
  Planner& planner_;
  Reconciler& reconciler_;
  Halt& halt_;
  Restart& restart_;
  Ending& ending_;
};

}  // namespace elastictrain::core
