#include "supervisor/core/gathering.h"

#include <utility>

#include "supervisor/core/change.h"
#include "supervisor/core/change_runner.h"
#include "supervisor/core/completion.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/restart.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/shortage.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"

namespace elastictrain::core {

Gathering::Gathering(const RunSettings& settings, Roster& roster, Training& training, Change& change,
                     Recovery& recovery, DesiredState& desired, RunEnd& end, FailureJudge& judge, ChangeRunner& runner,
                     Completion& completion, Halt& halt, Shortage& shortage, Restart& restart, Ending& ending)
    : settings_(settings),
      roster_(roster),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      end_(end),
      judge_(judge),
      runner_(runner),
      completion_(completion),
      halt_(halt),
      shortage_(shortage),
      restart_(restart),
      ending_(ending) {}

// While a recovery is in progress nothing else changes; the desired state is looked at again afterwards.
void Gathering::advance() {
  if (change_.stage == Stage::kHalting && recovery_.waiting.empty()) halt_.settle();
  if (change_.stage == Stage::kPreparing && !roster_.all_live(change_.members)) runner_.cancel("a new worker is gone");
  if (change_.stage == Stage::kGathering) gather_recovery();
  if (change_.stage == Stage::kCommitted && change_.waiting.empty()) completion_.complete();
}

// No worker trains any more, as requested.
bool Gathering::all_ended_in_order() const {
  if (end_.mode == EndMode::kDraining) return end_.left_in_order;
  return end_.mode == EndMode::kFinishing && judge_.losses().empty();
}

void Gathering::gather_recovery() {
  if (change_.retrying || end_.mode == EndMode::kNow) return;
  halt_.seat_survivors();
  if (training_.members.empty() && all_ended_in_order()) {
    ending_.end_without_members();
    return;
  }
  if (training_.members.empty() || !recovery_.holds_state(roster_.worker(training_.members.front()))) {
    restart_.lose_state();
  } else if (end_.mode == EndMode::kDraining) {
    prepare_stop();
  } else if (desired_.lease.hold && !end_.begun()) {
    return;  // halted, for as long as the cluster says
  } else if (training_.members.size() >= settings_.min_workers || end_.mode == EndMode::kFinishing) {
    prepare_recovery(training_.members);
  } else if (std::vector<WorkerId> members = shortage_.fill(); !members.empty()) {
    prepare_recovery(std::move(members));
  }
}

void Gathering::prepare_recovery(std::vector<WorkerId> members) {
  change_.members = std::move(members);
  change_.leavers.clear();
  change_.kind = protocol::ChangeKind::kRecover;
  change_.reason = "continue with " + counted(change_.members.size(), "worker") + ": " + recovery_.cause();
  runner_.prepare();
}

// A generation without members: all workers leave where they are, and one holder of the state writes the checkpoint.
void Gathering::prepare_stop() {
  change_.members.clear();
  change_.leavers = training_.members;
  change_.kind = protocol::ChangeKind::kStop;
  change_.reason = end_.reason;
  runner_.prepare();
}

}  // namespace elastictrain::core
