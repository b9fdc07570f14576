#include "supervisor/core/membership.h"

#include <utility>
#include <variant>

#include "supervisor/core/advance.h"
#include "supervisor/core/agents.h"
#include "supervisor/core/changing.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/hosts.h"
#include "supervisor/core/losses.h"
#include "supervisor/core/pure/invariants.h"
#include "supervisor/core/reconciling.h"
#include "supervisor/core/recovering.h"
#include "supervisor/core/requests.h"
#include "supervisor/core/run.h"
#include "supervisor/core/snapshot.h"
#include "supervisor/core/starting.h"
#include "supervisor/core/workers.h"

namespace elastictrain::core {

static void on_message(Run&, Worker&, const protocol::WorkerAudit&) {}  // handled before, also of an unknown worker
static void on_message(Run&, Worker&, const protocol::WorkerSwap&) {}   // a figure for display, kept by the edge
static void on_message(Run&, Worker&, const protocol::BoardPut&) {}     // the board is the edge's
static void on_message(Run&, Worker&, const protocol::BoardGet&) {}

// An account counts whichever agent delivers it: an agent that was away may deliver that of a worker that has exited.
static void on(Run& run, const WorkerMessage& event) {
  if (const auto* account = std::get_if<protocol::WorkerAudit>(&event.message)) {
    return record_account(run, event.worker, *account);
  }
  Worker* worker = run.roster.worker(event.worker);
  if (worker == nullptr) return;
  std::visit([&](const auto& message) { on_message(run, *worker, message); }, event.message);
}

static void worker_timer_fired(Run& run, TimerKind kind, Worker& worker) {
  switch (kind) {
    case TimerKind::kReady:
      return expel_joiner(run, worker.id, "was not ready in time");
    case TimerKind::kLeave:
      return stop_worker(run, worker);
    case TimerKind::kVanished:
      return worker_vanished(run, worker);
    case TimerKind::kStacks:
      return end_for_good(run, worker);
    default:
      return;
  }
}

static void timer_fired(Run& run, const TimerUse& use) {
  switch (use.kind) {
    case TimerKind::kStart:
      run.startup.timer = 0;
      run.startup.expired = true;
      return run.out.look_again();
    case TimerKind::kFixed:
      run.startup.fixed = run.startup.is_plain();
      return run.out.look_again();
    case TimerKind::kAgentLook:
      return look_at_agent(run, use.agent);
    case TimerKind::kReconnect:
      return reconnect_timed_out(run, use.agent);
    case TimerKind::kRelaunch:
      return relaunch_host(run, use.agent);
    case TimerKind::kPrepare:
      return prepare_timed_out(run);
    case TimerKind::kRetry:
      return retry_change(run);
    case TimerKind::kHalt:
      return halt_timed_out(run);
    case TimerKind::kWaitForMin:
      return shortage_expired(run);
    case TimerKind::kGrace:
      return grace_expired(run);
    case TimerKind::kEnd:
      run.end.expired = true;
      return run.out.look_again();
    case TimerKind::kNotices:
      return answer_notices(run);
    case TimerKind::kHold:
      run.desired.hold_timer = 0;
      return release_size(run, "the time for which a user held it is over");
    case TimerKind::kCooled:
      run.desired.unmet.clear();
      return run.out.look_again();
    case TimerKind::kReady:
    case TimerKind::kLeave:
    case TimerKind::kVanished:
    case TimerKind::kStacks:
      return;  // of a worker
  }
}

static void on(Run& run, const TimerFired& event) {
  const auto use = run.out.take_timer(event.timer);
  if (!use) return;
  if (Worker* worker = run.roster.worker(use->worker)) {
    worker->timer = 0;
    worker_timer_fired(run, use->kind, *worker);
  }
  timer_fired(run, *use);
}

static Phase phase_of(const Run& run) {
  if (run.end.over) return Phase::kEnded;
  if (run.end.begun()) return Phase::kEnding;
  if (run.training.generation == 0) return Phase::kStarting;
  if (run.takeover.waiting) return Phase::kResuming;
  if (!run.recovery.active()) return run.change.stage == Stage::kIdle ? Phase::kTraining : Phase::kChanging;
  if (run.change.stage == Stage::kHalting) return Phase::kHalted;
  return run.change.stage == Stage::kGathering && run.startup.min_timer != 0 ? Phase::kBelowMin : Phase::kRecovering;
}

static std::optional<std::string> find_broken(Run& run, const Event& event, Phase before, bool whole) {
  auto broken =
      run.invariants.check(event, run.out.actions(),
                           {run.roster, run.training.members, run.training.generation, before, phase_of(run), whole});
  if (!broken && run.settings.also_holds) broken = run.settings.also_holds(run.out.actions());
  return broken;
}

// What a wrong state has decided must neither leave the process nor be in the journal that the next one reads.
static Actions end_process(Run& run, const Event& event, const std::string& rule) {
  run.broken = true;
  (void)run.out.take_actions();
  run.out.journal(record::InvariantBroken{name_of(event), rule}, true);
  run.out.emit(EndProcess{rule});
  return run.out.take_actions();
}

Membership::Membership(RunSettings settings, std::function<Token()> make_token)
    : run_(std::make_unique<Run>(std::move(settings), std::move(make_token))) {}
Membership::~Membership() = default;
Membership::Membership(Membership&&) noexcept = default;
Membership& Membership::operator=(Membership&&) noexcept = default;

Actions Membership::step(const Event& event, Instant now) {
  Run& run = *run_;
  if (run.broken) return {};
  run.out.begin_step(now);
  const Phase before = phase_of(run);
  switch (handling(before, event)) {
    case Handling::kIgnore:
      return {};
    case Handling::kRefuse:
      refuse(run, request_of(event), refusal(run, before));
      break;
    case Handling::kHandle:
      std::visit([&](const auto& content) { on(run, content); }, event);
      break;
  }
  const bool whole = run.out.must_look();
  while (run.out.must_look() && !run.end.over) advance(run);
  if (const auto broken = find_broken(run, event, before, whole)) return end_process(run, event, *broken);
  return run.out.take_actions();
}

RunView Membership::view() const {
  return view_of_run(*run_);
}
Journal Membership::state_record() const {
  return core::state_record(*run_);
}
bool Membership::ended() const {
  return run_->end.over;
}

}  // namespace elastictrain::core
