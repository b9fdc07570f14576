#include "supervisor/core/membership.h"

#include <utility>

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
      make_token_(std::move(make_token)),
      detector_(settings_.suspect, settings_.dead),
      hangs_(settings_.failures, 2 * settings_.suspect, settings_.prepare_timeout),
      budget_(settings_.failures),
      health_(settings_.failures),
      target_(settings_.start_workers) {}

Actions Membership::Impl::step(const Event& event, Instant now) {
  now_ = now;
  out_.clear();
  const RunPhase before = phase();
  switch (handling(before, event)) {
    case Handling::kIgnore:
      return {};
    case Handling::kRefuse:
      if (request_of(event) != 0) refuse(request_of(event), refusal(before));
      break;
    case Handling::kHandle:
      std::visit([this](const auto& e) { on(e); }, event);
      break;
  }
  const bool whole = dirty_;
  while (dirty_ && !ended_) {
    dirty_ = false;
    if (resuming_) finish_resume();
    if (recovering()) {
      advance_recovery();
    } else if (end_.mode == EndMode::kNone) {
      reconcile();
    }
    if (end_.mode != EndMode::kNone && !ended_) advance_end();
    if (!ended_) release_agents();
  }
  check(event, before, whole);
  return std::move(out_);
}

void Membership::Impl::check(const Event& event, RunPhase before, bool whole) {
  const auto broken = invariants_.check(event, out_, {roster_, members_, generation_, before, phase(), whole});
  if (!broken) return;
  journal(record::InvariantBroken{core::name_of(event), *broken}, true);
  if (ended_) return;
  fail_run(70, "internal error: " + *broken + ". Please report this with the run's journal.");
}

void Membership::Impl::on(const TimerFired& event) {
  if (const auto use = timers_.take(event.timer)) fired(*use);
}

void Membership::Impl::fired(const TimerUse& use) {
  Worker* worker = roster_.worker(use.worker);
  if (worker != nullptr) worker->timer = 0;
  switch (use.kind) {
    case TimerKind::kStart:
      start_timer_ = 0;
      start_expired_ = true;
      dirty_ = true;
      break;
    case TimerKind::kAgentLook:
      look_at(use.agent);
      break;
    case TimerKind::kReady:
      if (worker != nullptr) expel_joiner(use.worker, "was not ready in time");
      break;
    case TimerKind::kLeave:
      if (worker != nullptr) stop_worker(*worker);
      break;
    case TimerKind::kPrepare:
      prepare_timed_out();
      break;
    case TimerKind::kRetry:
      change_.timer = 0;
      change_.retrying = false;
      dirty_ = true;
      break;
    case TimerKind::kGrace:
      if (end_.mode != EndMode::kDraining) break;
      tell(Tell::Level::kWarning, "the workers did not reach a step boundary within the grace time: stopping them now");
      begin_end(EndMode::kNow, end_.status, end_.reason);
      break;
    case TimerKind::kEnd:
      end_run();
      break;
    case TimerKind::kHalt:
      halt_timed_out();
      break;
    case TimerKind::kWaitForMin:
      wait_for_min_expired();
      break;
    case TimerKind::kReconnect:
      reconnect_timed_out(use.agent);
      break;
    case TimerKind::kVanished:
      if (worker != nullptr) vanished(*worker);
      break;
    case TimerKind::kRelaunch:
      relaunch(use.agent);
      break;
    case TimerKind::kStacks:
      if (worker != nullptr) end_for_good(*worker);
      break;
    case TimerKind::kCooled:
      unmet_told_.clear();
      dirty_ = true;
      break;
    case TimerKind::kNotices:
      answer_notices();
      break;
  }
}

std::uint64_t Membership::Impl::arm(TimerUse use, Instant when) {
  const std::uint64_t timer = timers_.add(use);
  emit(ArmTimer{timer, when});
  return timer;
}

void Membership::Impl::cancel(std::uint64_t& timer) {
  if (timer != 0 && timers_.remove(timer)) emit(CancelTimer{timer});
  timer = 0;
}

void Membership::Impl::send(std::vector<WorkerId> workers, protocol::WorkerDown message) {
  emit(SendToWorkers{std::move(workers), std::move(message)});
}

void Membership::Impl::tell(Tell::Level level, std::string text) {
  emit(Tell{level, std::move(text)});
}

RunPhase Membership::Impl::phase() const {
  if (ended_) return RunPhase::kEnded;
  if (end_.mode != EndMode::kNone) return RunPhase::kStopping;
  if (generation_ == 0) return RunPhase::kStarting;
  return change_.stage == Stage::kIdle ? RunPhase::kRunning : RunPhase::kChanging;
}

}  // namespace elastictrain::core
