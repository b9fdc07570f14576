#include "supervisor/core/ending.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/changing.h"
#include "supervisor/core/hosts.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/workers.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::core {
namespace {

// Time for agents to report the last exits after they have killed what did not exit by itself.
constexpr Millis kEndMargin{5'000};

std::string failure_in(const Ledger::Summary& audit) {
  std::string text;
  const auto add = [&](std::uint64_t count, const char* what, const char* how) {
    if (count > 0) text += (text.empty() ? "" : ", ") + counted(count, what) + how;
  };
  add(audit.missing, "sample", " counted in no step");
  add(audit.repeated, "sample", " counted more than once");
  add(audit.unequal_hashes, "time", " the parameters of two workers differed");
  return text;
}

}  // namespace

static void stop_everybody(Run& run) {
  for (auto& [id, worker] : run.roster.workers()) {
    stop_worker(run, worker);
    if (run.end.kills) run.out.emit(StopWorker{id, 0});
  }
}

void want_end(Run& run, EndMode mode, int status, std::string reason) {
  if (run.end.mode == EndMode::kNow) return;
  run.end.mode = mode;
  run.end.status = status;
  run.end.reason = std::move(reason);
  run.end.wanted = true;
  if (mode == EndMode::kNow) run.end.cut_off = run.training.members;
  run.out.look_again();
}

void begin_end(Run& run) {
  ET_CHECK(run.end.wanted && run.end.begun(), "the run ends because something has ended it");
  run.end.wanted = false;
  const bool now = run.end.mode == EndMode::kNow;
  run.out.journal(record::Ending{run.end.reason, now});
  if (run.change.stage != Stage::kCommitted && run.change.stage != Stage::kHalting) {
    cancel_change(run, run.end.reason);
    if (!run.recovery.active()) run.change = Change{};
  }
  if (now) {
    // It ends without a record, so a later supervisor finds the workers somewhere in it.
    if (run.recovery.active_or_wanted() || run.change.stage == Stage::kCommitted) run.takeover.unsettled = true;
    run.change = Change{};
    end_recovery(run);
  }
  run.out.look_again();
  if (now) {
    stop_everybody(run);
    run.out.arm({TimerKind::kEnd, {}, {}}, run.out.now() + run.settings.grace + kEndMargin);
    return;
  }
  dismiss_others(run);
  if (run.end.mode == EndMode::kDraining) run.out.arm({TimerKind::kGrace, {}, {}}, run.out.now() + run.settings.grace);
}

void dismiss_others(Run& run) {
  for (auto& [id, worker] : run.roster.workers()) {
    const bool over = worker.finished() || worker.left();
    if (!over && !run.training.is_member(id) && !run.change.in_flight(id)) dismiss(run, worker, run.end.reason);
  }
}

void end_without_members(Run& run) {
  run.change = Change{};
  end_recovery(run);
  dismiss_others(run);
}

void fail_run(Run& run, int status, const std::string& reason) {
  if (run.end.mode == EndMode::kNow) return;
  run.out.journal(record::Failed{status, reason}, true);
  run.out.tell(Tell::Level::kError, reason);
  run.end.suspended = false;
  want_end(run, EndMode::kNow, status, reason);
}

// All members run the same steps: when one has finished, the others are about to.
void member_finished(Run& run) {
  if (!run.end.begun()) want_end(run, EndMode::kFinishing, 0, "the program finished");
  run.out.look_again();
  if (run.recovery.active() || run.change.stage != Stage::kCommitted || run.change.any_active ||
      run.training.members.empty())
    return;
  const bool all_finished = std::all_of(run.training.members.begin(), run.training.members.end(), [&](WorkerId id) {
    const Worker* worker = run.roster.worker(id);
    return worker == nullptr || worker->finished() || worker->left();
  });
  if (!all_finished) return;
  // The program ended before the boundary at which the joiners would have begun.
  for (WorkerId id : run.change.members) {
    Worker* worker = run.roster.worker(id);
    if (worker != nullptr && !run.training.is_member(id)) dismiss(run, *worker, run.end.reason);
  }
  run.change = Change{};
}

static bool returns_samples(const Run& run) {
  return run.training.synchronization == protocol::Synchronization::kPairAveraging;
}

// An agent that was given up for its silence may only have been stopped: it delivers its workers' sample accounts when
// it continues.
static bool awaits_accounts(Run& run) {
  if (run.end.finished.empty() || run.silent_agents.empty() || !run.ledger.used()) return false;
  run.ledger.returns_samples(returns_samples(run));
  const Ledger::Summary audit = run.ledger.summary();
  if (audit.missing == 0 && audit.open == 0) return false;
  if (run.end.accounts_timer != 0) return true;
  run.end.accounts_timer = run.out.arm({TimerKind::kEnd, {}, {}}, run.out.now() + run.settings.grace);
  run.out.journal(
      record::AccountsAwaited{audit.missing, audit.open, {run.silent_agents.begin(), run.silent_agents.end()}});
  run.out.tell(Tell::Level::kInfo, "waiting for the last sample accounts of " +
                                       counted(run.silent_agents.size(), "host") + " that stopped reporting, at most " +
                                       protocol::duration_text(run.settings.grace));
  return true;
}

// The last generation has no members: all workers leave at the boundary.
static void drain_members(Run& run) {
  const bool anybody = std::any_of(run.training.members.begin(), run.training.members.end(), [&](WorkerId id) {
    const Worker* worker = run.roster.worker(id);
    return worker != nullptr && !worker->finished() && !worker->dying();
  });
  if (!anybody || run.change.retrying) return;
  if (run.change.stage == Stage::kPreparing) {
    if (run.change.waiting.empty()) commit_change(run);
    return;
  }
  prepare_stop(run);
}

static void report_violations(Run& run, WorkerId worker, const std::vector<std::string>& violations) {
  for (const std::string& violation : violations) {
    run.out.journal(record::AuditViolation{worker, violation});
    run.out.tell(Tell::Level::kError, "audit: " + violation);
  }
}

static std::string summarize_audit(Run& run, const std::vector<WorkerId>& cut_off) {
  if (!run.ledger.used()) return {};
  report_violations(run, {}, run.ledger.end(cut_off));
  const Ledger::Summary audit = run.ledger.summary();
  run.out.journal(record::Audit{.steps = audit.steps,
                                .epochs = audit.epochs,
                                .samples = audit.samples,
                                .missing = audit.missing,
                                .unaccounted = audit.unaccounted,
                                .repeated = audit.repeated,
                                .hashes_compared = audit.hashes_compared,
                                .unequal_hashes = audit.unequal_hashes});
  const std::string failure = failure_in(audit);
  if (audit.unaccounted > 0) {
    run.out.tell(Tell::Level::kInfo,
                 "the audit is not complete: " + counted(audit.unaccounted, "sample") +
                     " may have counted in last steps of which the workers could not tell any more");
  }
  if (!failure.empty()) run.out.tell(Tell::Level::kError, "the audit failed: " + failure);
  return failure;
}

static void end_run(Run& run) {
  run.ledger.returns_samples(returns_samples(run));
  const bool has_failed = run.end.mode == EndMode::kNow && run.end.status != 0;
  const std::string failure = summarize_audit(run, has_failed ? run.end.cut_off : std::vector<WorkerId>{});
  if (!failure.empty() && run.end.status == 0) {
    run.end.status = kStatusAuditFailed;
    run.end.reason += ", but the audit failed: " + failure;
  }
  if (run.settings.judge_end && !run.end.suspended) {
    RunResult judged = run.settings.judge_end({run.end.status, run.end.reason});
    run.end.status = judged.status;
    run.end.reason = std::move(judged.reason);
  }
  run.out.journal(record::End{run.end.status, run.end.reason}, true);
  for (auto& [id, agent] : run.roster.agents()) {
    if (agent.link != Link::kDown) stop_agent(run, agent);
  }
  run.out.emit(
      EndRun{run.end.status, run.end.reason, run.end.suspended && run.end.status == status_of(StopCause::kSuspended)});
  run.end.over = true;
  ET_CHECK(run.end.begun(), "a run that is over has a reason to end");
}

void advance_end(Run& run) {
  const bool settled = run.change.stage != Stage::kCommitted && !run.recovery.active() && !run.takeover.waiting;
  if (run.end.mode == EndMode::kDraining && settled) drain_members(run);
  // An agent that is away may still have data to deliver, above all sample accounts.
  const bool waits = run.end.mode != EndMode::kNow && run.takeover.waiting;
  const bool all_ended = run.roster.workers().empty() && !waits && !awaits_accounts(run);
  if (all_ended || run.end.expired) end_run(run);
}

void limit_finish(Run& run) {
  if (run.end.mode != EndMode::kFinishing || std::exchange(run.end.is_limited, true)) return;
  run.out.arm({TimerKind::kGrace, {}, {}}, run.out.now() + run.settings.grace);
}

void grace_expired(Run& run) {
  if (run.end.mode == EndMode::kFinishing) {
    run.out.tell(Tell::Level::kWarning,
                 "the program has finished, but its processes did not end within the grace time: killing them now");
    run.end.kills = true;
    want_end(run, EndMode::kNow, run.end.status, run.end.reason);
    return;
  }
  if (run.end.mode != EndMode::kDraining) return;
  run.out.tell(Tell::Level::kWarning,
               "the workers did not reach a step boundary within the grace time: stopping them now");
  want_end(run, EndMode::kNow, run.end.status, run.end.reason);
}

void record_account(Run& run, WorkerId worker, const protocol::WorkerAudit& account) {
  report_violations(run, worker, run.ledger.record(worker, account));
  if (run.end.accounts_timer != 0) run.out.look_again();
}

void fence_accounts(Run& run, const protocol::Fence& begun) {
  report_violations(run, {}, run.ledger.fence(begun));
}

}  // namespace elastictrain::core
