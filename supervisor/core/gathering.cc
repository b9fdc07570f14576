#include "supervisor/core/gathering.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "supervisor/core/change.h"
#include "supervisor/core/change_runner.h"
#include "supervisor/core/completion.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/hang_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/planner.h"
#include "supervisor/core/reconciler.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/restart.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/swap_plan.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"

namespace elastictrain::core {

Gathering::Gathering(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
                     Recovery& recovery, DesiredState& desired, Startup& startup, RunEnd& end, FailureJudge& judge,
                     HangJudge& hang_judge, ChangeRunner& runner, Completion& completion, WorkerControl& workers,
                     Planner& planner, Reconciler& reconciler, Halt& halt, Restart& restart, Ending& ending)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      startup_(startup),
      end_(end),
      judge_(judge),
      hang_judge_(hang_judge),
      runner_(runner),
      completion_(completion),
      workers_(workers),
      planner_(planner),
      reconciler_(reconciler),
      halt_(halt),
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
    change_ = Change{};
    end_recovery();
    ending_.dismiss_others();
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
  } else {
    gather_joiners();
  }
}

// Too few workers are left: they wait, halted, until others are ready to join them.
void Gathering::gather_joiners() {
  SwapInput input;
  for (WorkerId id : training_.members) input.members.push_back({id, roster_.worker(id)->place()});
  input.candidates = planner_.candidates();
  input.free = planner_.free_places();
  input.min = settings_.min_workers;
  input.want = std::max({planner_.target_size_of(), input.min, static_cast<std::uint32_t>(training_.members.size())});
  input.spares = settings_.spares;
  const SwapDecision decision = decide_swap(input);
  std::vector<WorkerId> next = reconciler_.carry_out(decision);
  std::erase_if(next, [&](WorkerId id) {
    const Worker& worker = *roster_.worker(id);
    return !training_.is_member(id) && (!worker.ready() || roster_.agent(worker.agent)->cut_off);
  });
  if (next.size() >= settings_.min_workers) {
    prepare_recovery(std::move(next));
    return;
  }
  if (startup_.min_timer != 0) return;
  startup_.min_timer = out_.arm({TimerKind::kWaitForMin, {}, {}}, out_.now() + settings_.failures.wait_for_min);
  const std::string text = counted(training_.members.size(), "worker") +
                           (training_.members.size() == 1 ? " is" : " are") + " left and at least " +
                           std::to_string(settings_.min_workers) + " must train: waiting for others";
  out_.journal(record::BelowMin{training_.members.size(), settings_.min_workers});
  out_.tell(Tell::Level::kWarning, text);
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

void Gathering::prepare_timed_out() {
  const std::set<WorkerId> late(change_.waiting.begin(), change_.waiting.end());
  runner_.cancel("no answer in time");
  leave_out(late, "did not build its communicator within " + std::to_string(settings_.prepare_timeout.count()) + " ms");
}

// Never all of them: when all workers report each other, those on the host of the lowest rank stay.
void Gathering::leave_out(std::set<WorkerId> guilty, const std::string& why) {
  const auto innocent = std::find_if(training_.members.begin(), training_.members.end(), [&](WorkerId id) {
    return !guilty.contains(id) && recovery_.holds_state(roster_.worker(id));
  });
  if (innocent == training_.members.end() && !training_.members.empty()) {
    const std::string host = roster_.worker(training_.members.front())->host;
    const bool elsewhere = std::any_of(guilty.begin(), guilty.end(), [&](WorkerId id) {
      return roster_.worker(id) != nullptr && roster_.worker(id)->host != host;
    });
    std::erase_if(guilty, [&](WorkerId id) {
      const Worker* worker = roster_.worker(id);
      return worker == nullptr || (elsewhere ? worker->host == host : id == training_.members.front());
    });
  }
  for (WorkerId id : guilty) {
    Worker* worker = roster_.worker(id);
    if (worker == nullptr || end_.mode == EndMode::kNow) continue;
    if (worker->seated()) {
      hang_judge_.end_hung(*worker, why);
    } else {
      workers_.expel_joiner(id, why);
    }
  }
  out_.look_again();
}

void Gathering::wait_for_min_expired() {
  startup_.min_timer = 0;
  const bool waits = training_.restarting || (recovery_.active() && change_.stage == Stage::kGathering);
  if (!waits || end_.begun()) return;
  const auto waited_s = std::chrono::duration_cast<std::chrono::seconds>(settings_.failures.wait_for_min).count();
  const std::string text = counted(training_.members.size(), "worker") +
                           (training_.members.size() == 1 ? " is" : " are") + " left, at least " +
                           std::to_string(settings_.min_workers) + " must train, and no worker joined within " +
                           std::to_string(waited_s) + " s";
  out_.tell(Tell::Level::kError, text);
  constexpr int kComeAgain = 75;
  constexpr int kUnavailable = 69;
  ending_.begin_end(EndMode::kDraining, settings_.has_checkpoints ? kComeAgain : kUnavailable, text);
}

// The next generation trains, or there is none.
void Gathering::end_recovery() {
  out_.cancel(recovery_.halt_timer);
  out_.cancel(startup_.min_timer);
  recovery_ = Recovery{};
}

}  // namespace elastictrain::core
