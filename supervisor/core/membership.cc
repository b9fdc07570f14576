#include "supervisor/core/membership.h"

#include <utility>
#include <variant>

#include "supervisor/core/membership_impl.h"
#include "supervisor/core/transitions.h"

namespace elastictrain::core {

Membership::Membership(RunSettings settings, std::function<Token()> make_token)
    : impl_(std::make_unique<Impl>(std::move(settings), std::move(make_token))) {}
Membership::~Membership() = default;
Membership::Membership(Membership&&) noexcept = default;
Membership& Membership::operator=(Membership&&) noexcept = default;

Actions Membership::step(const Event& event, Instant now) {
  return impl_->step(event, now);
}
RunView Membership::view() const {
  return impl_->view();
}
Journal Membership::state_record() const {
  return impl_->state_record();
}
bool Membership::ended() const {
  return impl_->ended();
}

Membership::Impl::Impl(RunSettings settings, std::function<Token()> make_token)
    : settings_(std::move(settings)),
      hangs_(settings_.failures, 2 * settings_.suspect, settings_.prepare_timeout),
      health_(settings_.failures),
      audit_(out_),
      workers_(settings_, roster_, out_, startup_, training_, change_, recovery_, desired_, health_, hangs_),
      joiners_(settings_, roster_, out_, desired_, startup_, training_, change_, audit_, workers_),
      boundary_(roster_, out_, training_, change_, recovery_, end_, resume_, hangs_, audit_, workers_, runner_,
                completion_, halt_, ending_, newcomers_),
      plain_(settings_, roster_, out_, startup_, change_, workers_),
      exits_(roster_, out_, startup_, training_, change_, end_, workers_, ending_, halt_, judge_, plain_, newcomers_),
      judge_(settings_, roster_, out_, training_, recovery_, desired_, end_, ending_, halt_, host_judge_),
      host_judge_(roster_, out_, training_, health_),
      hang_judge_(settings_, roster_, out_, training_, change_, recovery_, end_, hangs_, health_, workers_, judge_,
                  halt_, newcomers_),
      newcomers_(settings_, roster_, out_, training_, change_, recovery_, desired_, end_, workers_, halt_, ending_),
      hosts_(settings_, roster_, out_, startup_, desired_, change_),
      agents_(settings_, roster_, out_, startup_, end_, hangs_, workers_, judge_, hang_judge_, ending_, hosts_, links_,
              plain_, newcomers_),
      warm_(settings_, roster_, out_, training_, end_, health_),
      links_(settings_, roster_, out_, startup_, change_, recovery_, end_, health_, workers_, judge_, host_judge_,
             agents_),
      notices_(settings_, roster_, out_, desired_, change_, end_, planner_, workers_, runner_),
      requests_(settings_, roster_, out_, desired_, startup_, training_, change_, end_, planner_, workers_, hosts_,
                ending_),
      lease_(settings_, roster_, out_, startup_, resume_, training_, recovery_, desired_, end_, hosts_, halt_, ending_),
      planner_(settings_, roster_, out_, desired_, startup_, training_, change_, health_, workers_),
      reconciler_(settings_, roster_, out_, desired_, startup_, training_, change_, resume_, planner_, workers_, hosts_,
                  runner_, ending_, plain_),
      plans_(settings_, roster_, training_, change_, recovery_, desired_, std::move(make_token)),
      runner_(settings_, roster_, out_, training_, change_, recovery_, desired_, end_, hangs_, audit_, plans_, workers_,
              exclusion_, ending_, newcomers_),
      completion_(settings_, roster_, out_, training_, change_, recovery_, desired_, startup_, end_, hangs_, judge_,
                  host_judge_, ending_),
      halt_(settings_, roster_, out_, training_, change_, recovery_, desired_, end_, hangs_, judge_, hang_judge_,
            runner_, agents_, links_, workers_),
      exclusion_(settings_, roster_, out_, training_, change_, recovery_, end_, hang_judge_, runner_, workers_),
      shortage_(settings_, roster_, out_, training_, change_, recovery_, startup_, end_, planner_, reconciler_,
                ending_),
      gathering_(settings_, roster_, training_, change_, recovery_, desired_, end_, judge_, runner_, completion_, halt_,
                 shortage_, restart_, ending_),
      restart_(settings_, roster_, out_, training_, change_, recovery_, desired_, end_, judge_, workers_, startup_,
               ending_),
      ending_(settings_, roster_, out_, training_, change_, recovery_, end_, resume_, audit_, workers_, hosts_, agents_,
              runner_, completion_, startup_),
      takeover_(settings_, roster_, out_, training_, recovery_, desired_, startup_, end_, resume_, hangs_, invariants_,
                audit_, workers_, halt_, ending_),
      snapshot_(settings_, roster_, out_, training_, change_, recovery_, desired_, startup_, end_, health_, judge_),
      state_record_(roster_, training_, change_, recovery_, desired_, resume_, end_) {
  desired_.target = settings_.leased ? settings_.max_workers : settings_.start_workers;
}

Actions Membership::Impl::step(const Event& event, Instant now) {
  if (broken_) return {};
  out_.begin_step(now);
  const Phase before = phase();
  switch (handling(before, event)) {
    case Handling::kIgnore:
      return {};
    case Handling::kRefuse:
      if (request_of(event) != 0) requests_.refuse(request_of(event), requests_.refusal(before));
      break;
    case Handling::kHandle:
      dispatch(event);
      break;
  }
  const bool whole = out_.must_look();
  while (out_.must_look() && !end_.over) advance();
  if (const auto broken = find_broken(event, before, whole)) return end_process(event, *broken);
  return out_.take_actions();
}

Phase Membership::Impl::phase() const {
  if (end_.over) return Phase::kEnded;
  if (end_.begun()) return Phase::kEnding;
  if (training_.generation == 0) return Phase::kStarting;
  if (resume_.waiting) return Phase::kResuming;
  if (!recovery_.active()) return change_.stage == Stage::kIdle ? Phase::kTraining : Phase::kChanging;
  if (change_.stage == Stage::kHalting) return Phase::kHalted;
  return change_.stage == Stage::kGathering && startup_.min_timer != 0 ? Phase::kBelowMin : Phase::kRecovering;
}

// One comparison of the desired state with the actual one. It may cause another.
void Membership::Impl::advance() {
  out_.looked();
  if (resume_.waiting) takeover_.advance();
  lease_.advance();
  warm_.advance();
  if (recovery_.active()) {
    gathering_.advance();
  } else if (!end_.begun()) {
    reconciler_.reconcile();
  }
  if (end_.begun() && !end_.over) ending_.advance_end();
  if (!end_.over) hosts_.release_agents();
}

std::optional<std::string> Membership::Impl::find_broken(const Event& event, Phase before, bool whole) {
  auto broken = invariants_.check(event, out_.actions(),
                                  {roster_, training_.members, training_.generation, before, phase(), whole});
  if (!broken && settings_.also_holds) broken = settings_.also_holds(out_.actions());
  return broken;
}

// What a wrong state has decided must neither leave the process nor be in the journal that the next one reads.
Actions Membership::Impl::end_process(const Event& event, const std::string& rule) {
  broken_ = true;
  (void)out_.take_actions();
  out_.journal(record::InvariantBroken{core::name_of(event), rule}, true);
  out_.emit(EndProcess{rule});
  return out_.take_actions();
}

void Membership::Impl::dispatch(const Event& event) {
  std::visit([this](const auto& content) { on(content); }, event);
}

// An account counts whichever agent delivers it: an agent that was away may deliver that of a worker that has exited.
void Membership::Impl::on(const WorkerMessage& event) {
  if (const auto* account = std::get_if<protocol::WorkerAudit>(&event.message)) {
    audit_.record(event.worker, *account);
    ending_.account_arrived();
    return;
  }
  Worker* worker = roster_.worker(event.worker);
  if (worker == nullptr) return;
  std::visit([&](const auto& message) { on_message(*worker, message); }, event.message);
}

void Membership::Impl::on(const TimerFired& event) {
  const auto use = out_.take_timer(event.timer);
  if (!use) return;
  if (Worker* worker = roster_.worker(use->worker)) {
    worker->timer = 0;
    worker_timer_fired(use->kind, *worker);
  }
  timer_fired(*use);
}

void Membership::Impl::worker_timer_fired(TimerKind kind, Worker& worker) {
  switch (kind) {
    case TimerKind::kReady:
      return workers_.expel_joiner(worker.id, "was not ready in time");
    case TimerKind::kLeave:
      return workers_.stop(worker);
    case TimerKind::kVanished:
      return links_.vanished(worker);
    case TimerKind::kStacks:
      return workers_.end_for_good(worker);
    default:
      return;
  }
}

void Membership::Impl::timer_fired(const TimerUse& use) {
  switch (use.kind) {
    case TimerKind::kStart:
      startup_.timer = 0;
      startup_.expired = true;
      return out_.look_again();
    case TimerKind::kFixed:
      startup_.fixed = startup_.is_plain();
      return out_.look_again();
    case TimerKind::kAgentLook:
      return agents_.look_at(use.agent);
    case TimerKind::kReconnect:
      return links_.reconnect_timed_out(use.agent);
    case TimerKind::kRelaunch:
      return links_.relaunch(use.agent);
    case TimerKind::kPrepare:
      return runner_.prepare_timed_out();
    case TimerKind::kRetry:
      return runner_.retry();
    case TimerKind::kHalt:
      return halt_.halt_timed_out();
    case TimerKind::kWaitForMin:
      return shortage_.expired();
    case TimerKind::kGrace:
      return ending_.grace_expired();
    case TimerKind::kEnd:
      return ending_.end_run();
    case TimerKind::kNotices:
      return notices_.answer_notices();
    case TimerKind::kHold:
      desired_.hold_timer = 0;
      return desired_.release_size("the time for which a user held it is over", out_);
    case TimerKind::kCooled:
      desired_.unmet.clear();
      return out_.look_again();
    case TimerKind::kReady:
    case TimerKind::kLeave:
    case TimerKind::kVanished:
    case TimerKind::kStacks:
      return;  // of a worker
  }
}

}  // namespace elastictrain::core
