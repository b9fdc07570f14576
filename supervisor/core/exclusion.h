// Purpose: the workers of a recovery that cannot build the generation after it. They are ended, and the others continue
// without them.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <set>
#include <string>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
class ChangeRunner;
class HangJudge;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Training;
class WorkerControl;

class Exclusion {
 public:
  Exclusion(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
            Recovery& recovery, RunEnd& end, HangJudge& hang_judge, ChangeRunner& runner, WorkerControl& workers);

  void prepare_timed_out();
  void leave_out(std::set<WorkerId> guilty, const std::string& why);

 private:
  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  RunEnd& end_;
  HangJudge& hang_judge_;
  ChangeRunner& runner_;
  WorkerControl& workers_;
};

}  // namespace elastictrain::core
