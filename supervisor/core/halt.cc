#include "supervisor/core/halt.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "supervisor/core/agent_watch.h"
#include "supervisor/core/change.h"
#include "supervisor/core/change_runner.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/hang_judge.h"
#include "supervisor/core/links.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {

Halt::Halt(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
           Recovery& recovery, DesiredState& desired, RunEnd& end, HangDetector& hangs, FailureJudge& judge,
           HangJudge& hang_judge, ChangeRunner& runner, AgentWatch& agents, Links& links, WorkerControl& workers)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      end_(end),
      hangs_(hangs),
      judge_(judge),
      hang_judge_(hang_judge),
      runner_(runner),
      agents_(agents),
      links_(links),
      workers_(workers) {}

// A training worker is gone (or cannot continue), and the roster is already updated. `why` may be empty: nothing to
// report.
void Halt::recover(const std::string& why) {
  if (end_.mode == EndMode::kNow) return;
  if (!recovery_.active() || change_.stage == Stage::kCommitted) {
    begin_recovery(why);
    return;
  }
  if (!why.empty()) recovery_.reasons.push_back(why);
  if (change_.stage == Stage::kPreparing) runner_.cancel(why.empty() ? "a member left" : why);
  training_.set_members(recovery_.living(roster_));
  out_.look_again();
}

void Halt::begin_recovery(const std::string& why) {
  ET_CHECK(!end_.over, "a run that has ended loses nothing");
  if (change_.stage == Stage::kPreparing) runner_.cancel(why.empty() ? "a recovery begins" : why);
  out_.cancel(change_.timer);
  training_.size_before_loss = std::max(training_.size_before_loss, training_.members.size());
  merge_change();
  change_ = Change{};
  hangs_.hold();
  change_.stage = Stage::kHalting;
  change_.kind = protocol::ChangeKind::kRecover;
  training_.fence = recovery_.fence = ++training_.issued;
  ET_CHECK(training_.fence > training_.generation, "a fence is newer than what it ends");
  if (!why.empty()) recovery_.reasons.push_back(why);
  training_.set_members(recovery_.living(roster_));
  recovery_.waiting = {training_.members.begin(), training_.members.end()};
  for (auto& [id, worker] : roster_.workers()) worker.halted.reset();
  out_.journal(record::Abort{recovery_.fence, training_.generation, recovery_.cause(), training_.members}, true);
  if (!training_.members.empty()) out_.send(training_.members, protocol::Abort{recovery_.fence, recovery_.cause()});
  out_.cancel(recovery_.halt_timer);
  recovery_.halt_timer = out_.arm({TimerKind::kHalt, {}, {}}, out_.now() + settings_.failures.halt_timeout);
  out_.look_again();
}

// Members of a committed change are in the old generation or in the new one: both count until they have reported which.
void Halt::merge_change() {
  std::vector<WorkerId> order = training_.members;
  if (change_.stage == Stage::kCommitted) {
    order = change_.members;
    for (WorkerId id : training_.members) {
      if (std::find(order.begin(), order.end(), id) == order.end()) order.push_back(id);
    }
    recovery_.taken = change_.generation;
    recovery_.taken_first_step = recovery_.active() ? recovery_.resume_step + 1 : change_.first_step;
  }
  for (std::uint32_t rank = 0; rank < training_.members.size(); ++rank)
    recovery_.ranks.try_emplace(training_.members[rank], rank);
  if (change_.stage == Stage::kCommitted) {
    for (std::uint32_t rank = 0; rank < change_.members.size(); ++rank) recovery_.ranks[change_.members[rank]] = rank;
  }
  recovery_.order = std::move(order);
}

void Halt::on_message(Worker& worker, const protocol::WorkerHalted& message) {
  if (!worker.trains()) return;
  if (message.fence == 0) {
    halted_by_itself(worker, message);
    return;
  }
  if (change_.stage != Stage::kHalting || message.fence != recovery_.fence) return;
  if (recovery_.waiting.erase(worker.id) == 0) return;
  worker.halted = message;
  journal_halted(worker, message);
  if (recovery_.waiting.empty()) out_.look_again();
}

// A collective failed, but no loss is known (yet).
void Halt::halted_by_itself(Worker& worker, const protocol::WorkerHalted& message) {
  if (message.generation <= training_.fence) return;
  journal_halted(worker, message);
  judge_.forget_repaired_losses();
  recovery_.suspicion = workers_.name_of(worker) + " could not continue: " + message.reason;
  links_.doubt_others(worker.agent);
  if (!recovery_.active() || change_.stage == Stage::kCommitted) begin_recovery("");
}

void Halt::journal_halted(const Worker& worker, const protocol::WorkerHalted& message) {
  record::Halted halted{
      worker.id, message.fence, message.generation, message.committed_step, message.has_state, message.in_loop, {}};
  if (!message.reason.empty()) halted.reason = message.reason;
  out_.journal(std::move(halted));
}

void Halt::halt_timed_out() {
  recovery_.halt_timer = 0;
  if (change_.stage != Stage::kHalting) return;
  const std::set<WorkerId> late(recovery_.waiting.begin(), recovery_.waiting.end());
  for (WorkerId id : late) {
    Worker* worker = roster_.worker(id);
    if (worker == nullptr || end_.mode == EndMode::kNow) continue;
    Agent& agent = *roster_.agent(worker->agent);
    if (agent.cut_off) {
      agents_.lose_agent(agent, agent.lost_reason);
      continue;
    }
    hang_judge_.end_hung(*worker,
                         "did not leave its step within " + protocol::duration_text(settings_.failures.halt_timeout));
  }
}

// Every remaining worker has answered: which step counts, and which workers hold its state?
void Halt::settle() {
  for (WorkerId id : recovery_.living(roster_)) {
    Worker& worker = *roster_.worker(id);
    if (!worker.ready() && end_.mode != EndMode::kNow) hang_judge_.end_hung(worker, "did not report its address again");
  }
  if (!recovery_.active()) return;
  out_.cancel(recovery_.halt_timer);
  Generation newest = training_.generation;
  for (WorkerId id : recovery_.living(roster_)) newest = std::max(newest, roster_.worker(id)->halted->generation);
  if (newest > training_.generation) {
    training_.generation = newest;
    if (newest == recovery_.taken) training_.remember(newest, recovery_.taken_first_step);
  }
  change_.stage = Stage::kGathering;
  seat_survivors();
  std::vector<WorkerId> holders;
  for (WorkerId id : training_.members) {
    if (recovery_.holds_state(roster_.worker(id))) holders.push_back(id);
  }
  out_.journal(
      record::HaltSettled{recovery_.fence, training_.generation, recovery_.resume_step, holders, training_.members});
  if (!desired_.lease.hold) judge_.note_recovery();
  if (!recovery_.active() || !recovery_.reasons.empty() || recovery_.suspicion.empty()) return;
  recovery_.reasons.push_back(recovery_.suspicion);
  out_.tell(Tell::Level::kWarning, recovery_.suspicion + "; no worker is lost, and the run continues");
}

// From the answers of the workers that still run; another loss may have changed which of them hold the newest state.
void Halt::seat_survivors() {
  recovery_.resume_step = 0;
  bool anybody = false;
  const std::vector<WorkerId> living = recovery_.living(roster_);
  for (WorkerId id : living) {
    const protocol::WorkerHalted& answer = *roster_.worker(id)->halted;
    if (!answer.has_state || !answer.in_loop) continue;
    anybody = true;
    recovery_.resume_step = std::max(recovery_.resume_step, answer.committed_step);
  }
  recovery_.gradients_are_left = std::any_of(living.begin(), living.end(), [&](WorkerId id) {
    const protocol::WorkerHalted& answer = *roster_.worker(id)->halted;
    return answer.has_state && answer.has_gradients && answer.in_loop && answer.committed_step == recovery_.resume_step;
  });
  std::vector<WorkerId> seated;
  std::vector<WorkerId> behind;
  for (WorkerId id : living) {
    Worker& worker = *roster_.worker(id);
    if (!worker.halted->in_loop) {
      worker.seat = Seat::kNone;
    } else if (anybody && recovery_.holds_state(roster_.worker(id))) {
      seated.push_back(id);
    } else {
      behind.push_back(id);
    }
  }
  seated.insert(seated.end(), behind.begin(), behind.end());
  training_.set_members(std::move(seated));
}

}  // namespace elastictrain::core
