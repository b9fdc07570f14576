// Purpose: from the answers of the halted workers to the generation that follows a loss: those that hold the newest
// state continue together, and others may have to join them first.
//
// Ownership and thread: those of the state machine.
#pragma once

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
struct Recovery;
class Restart;
struct RunEnd;
struct RunSettings;
class Shortage;
struct Training;

class Gathering {
 public:
  Gathering(const RunSettings& settings, Roster& roster, Training& training, Change& change, Recovery& recovery,
            DesiredState& desired, RunEnd& end, FailureJudge& judge, ChangeRunner& runner, Completion& completion,
            Halt& halt, Shortage& shortage, Restart& restart, Ending& ending);

  void advance();

 private:
  bool all_ended_in_order() const;
  void gather_recovery();
  void prepare_recovery(std::vector<WorkerId> members);
  void prepare_stop();

  const RunSettings& settings_;
  Roster& roster_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  DesiredState& desired_;
  RunEnd& end_;
  FailureJudge& judge_;
  ChangeRunner& runner_;
  Completion& completion_;
  Halt& halt_;
  Shortage& shortage_;
  Restart& restart_;
  Ending& ending_;
};

}  // namespace elastictrain::core
