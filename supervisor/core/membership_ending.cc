// The part of the state machine that ends a run: because its program finished, on request, or after a failure.
#include <algorithm>

#include "supervisor/core/membership_impl.h"
#include "supervisor/core/words.h"

namespace elastictrain::core {
namespace {

// Time for agents to report the last exits after they have killed what did not exit by itself.
constexpr Millis kEndMargin{5'000};

int status_of(StopCause cause) {
  switch (cause) {
    case StopCause::kUser:
      return 0;
    case StopCause::kInterrupt:
      return 130;
    case StopCause::kPreempted:
      return 75;
    case StopCause::kTimeLimit:
      return 75;
  }
  return 0;
}

const char* reason_of(StopCause cause) {
  switch (cause) {
    case StopCause::kUser:
      return "stopped by the user";
    case StopCause::kInterrupt:
      return "interrupted";
    case StopCause::kPreempted:
      return "preempted";
    case StopCause::kTimeLimit:
      return "the time limit is reached";
  }
  return "stopped";
}

}  // namespace

void Membership::Impl::on(const Stop& event) {
  journal(record::StopRequested{event.request, reason_of(event.cause)});
  if (end_.mode != EndMode::kNone) {
    accept(event.request, "the run is already ending: " + end_.reason);
    return;
  }
  accept(event.request, generation_ == 0 ? "stopping" : "stopping at the next step boundary");
  begin_end(EndMode::kDraining, status_of(event.cause), reason_of(event.cause));
}

void Membership::Impl::on(const StopNow&) {
  journal(record::StopNowRequested{});
  if (end_.mode == EndMode::kNow) return;
  const bool known = end_.mode == EndMode::kDraining;
  begin_end(EndMode::kNow, known ? end_.status : status_of(StopCause::kInterrupt),
            known ? end_.reason : reason_of(StopCause::kInterrupt));
}

void Membership::Impl::begin_end(EndMode mode, int status, std::string reason) {
  if (end_.mode == EndMode::kNow) return;
  end_ = {mode, status, std::move(reason)};
  journal(record::Ending{end_.reason, mode == EndMode::kNow});
  if (change_.stage != Stage::kCommitted && change_.stage != Stage::kHalting) {
    cancel_change(end_.reason);
    if (!recovering()) change_ = Change{};
  }
  if (mode == EndMode::kNow) {
    change_ = Change{};
    end_recovery();
  }
  dirty_ = true;
  if (mode == EndMode::kNow) {
    stop_everybody();
    arm({TimerKind::kEnd, {}, {}}, now_ + settings_.grace + kEndMargin);
    return;
  }
  dismiss_others();
  if (mode == EndMode::kDraining) arm({TimerKind::kGrace, {}, {}}, now_ + settings_.grace);
}

// A worker in no generation has nothing to wait for any more.
void Membership::Impl::dismiss_others() {
  for (auto& [id, worker] : roster_.workers()) {
    const bool over = worker.finished || worker.left;
    if (!over && !is_member(id) && !in_flight(id)) dismiss(worker, end_.reason);
  }
}

void Membership::Impl::stop_everybody() {
  for (auto& [id, worker] : roster_.workers()) stop_worker(worker);
}

void Membership::Impl::fail_run(int status, const std::string& reason) {
  if (end_.mode == EndMode::kNow) return;
  journal(record::Failed{status, reason}, true);
  tell(Tell::Level::kError, reason);
  begin_end(EndMode::kNow, status, reason);
}

// All members run the same steps: when one has finished, the others are about to.
void Membership::Impl::member_finished() {
  if (end_.mode == EndMode::kNone) begin_end(EndMode::kFinishing, 0, "the program finished");
  dirty_ = true;
  if (recovering() || change_.stage != Stage::kCommitted || change_.any_active || members_.empty()) return;
  const bool all_finished = std::all_of(members_.begin(), members_.end(), [&](WorkerId id) {
    const Worker* worker = roster_.worker(id);
    return worker == nullptr || worker->finished || worker->left;
  });
  if (!all_finished) return;
  // The program ended before the boundary at which the joiners would have begun.
  for (WorkerId id : change_.members) {
    Worker* worker = roster_.worker(id);
    if (worker != nullptr && !is_member(id)) dismiss(*worker, end_.reason);
  }
  change_ = Change{};
}

void Membership::Impl::advance_end() {
  const bool swapped = change_.stage == Stage::kCommitted && change_.waiting.empty();
  if (swapped && end_.mode != EndMode::kNow) complete();
  const bool settled = change_.stage != Stage::kCommitted && !recovering() && !resuming_;
  if (end_.mode == EndMode::kDraining && settled) drain_members();
  // An agent that is away may still have data to deliver, above all sample accounts.
  const bool waits = end_.mode != EndMode::kNow && resuming_;
  if (roster_.workers().empty() && !waits && !awaits_accounts()) end_run();
}

// An agent that was given up for its silence may only have been stopped: it delivers its workers' sample accounts when
// it continues.
bool Membership::Impl::awaits_accounts() {
  if (finished_.empty() || silent_.empty() || !ledger_.used()) return false;
  const Ledger::Summary audit = ledger_.summary();
  if (audit.missing == 0 && audit.open == 0) return false;
  if (accounts_timer_ != 0) return true;
  accounts_timer_ = arm({TimerKind::kEnd, {}, {}}, now_ + settings_.grace);
  journal(record::AccountsAwaited{audit.missing, audit.open, {silent_.begin(), silent_.end()}});
  tell(Tell::Level::kInfo, "waiting for the last sample accounts of " + counted(silent_.size(), "host") +
                               " that stopped reporting, at most " + std::to_string(settings_.grace.count()) + " ms");
  return true;
}

// The last generation has no members: all workers leave at the boundary.
void Membership::Impl::drain_members() {
  const bool anybody = std::any_of(members_.begin(), members_.end(), [&](WorkerId id) {
    const Worker* worker = roster_.worker(id);
    return worker != nullptr && !worker->finished && !worker->dying;
  });
  if (!anybody || change_.retrying) return;
  if (change_.stage == Stage::kPreparing) {
    if (change_.waiting.empty()) commit();
    return;
  }
  change_.members.clear();
  change_.leavers = members_;
  change_.kind = protocol::ChangeKind::kStop;
  change_.reason = end_.reason;
  prepare();
}

void Membership::Impl::journal_audit() {
  if (!ledger_.used()) return;
  const Ledger::Summary audit = ledger_.summary();
  journal(record::Audit{.steps = audit.steps,
                        .epochs = audit.epochs,
                        .samples = audit.samples,
                        .missing = audit.missing,
                        .repeated = audit.repeated,
                        .hashes_compared = audit.hashes_compared,
                        .unequal_hashes = audit.unequal_hashes});
  if (audit.missing == 0) return;
  tell(Tell::Level::kError, "audit: " + std::to_string(audit.missing) + " samples counted in no step");
}

void Membership::Impl::end_run() {
  if (ended_) return;
  journal_audit();
  journal(record::End{end_.status, end_.reason}, true);
  for (auto& [id, agent] : roster_.agents()) {
    if (agent.link != Link::kDown) stop_agent(agent);
  }
  emit(EndRun{end_.status, end_.reason});
  ended_ = true;
}

}  // namespace elastictrain::core
