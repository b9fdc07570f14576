#include "supervisor/core/ending.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "supervisor/core/agent_watch.h"
#include "supervisor/core/audit.h"
#include "supervisor/core/change.h"
#include "supervisor/core/change_runner.h"
#include "supervisor/core/completion.h"
#include "supervisor/core/host_list.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/stop_cause.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {
namespace {

// Time for agents to report the last exits after they have killed what did not exit by itself.
constexpr Millis kEndMargin{5'000};

}  // namespace

Ending::Ending(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
               Recovery& recovery, RunEnd& end, TakeoverState& resume, Audit& audit, WorkerControl& workers,
               HostList& hosts, AgentWatch& agents, ChangeRunner& runner, Completion& completion, Startup& startup)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      end_(end),
      resume_(resume),
      audit_(audit),
      workers_(workers),
      hosts_(hosts),
      agents_(agents),
      runner_(runner),
      completion_(completion),
      startup_(startup) {}

void Ending::begin_end(EndMode mode, int status, std::string reason) {
  if (end_.mode == EndMode::kNow) return;
  end_.mode = mode;
  end_.status = status;
  end_.reason = std::move(reason);
  out_.journal(record::Ending{end_.reason, mode == EndMode::kNow});
  if (change_.stage != Stage::kCommitted && change_.stage != Stage::kHalting) {
    runner_.cancel(end_.reason);
    if (!recovery_.active()) change_ = Change{};
  }
  if (mode == EndMode::kNow) {
    // It ends without a record, so a later supervisor finds the workers somewhere in it.
    if (recovery_.active() || change_.stage == Stage::kCommitted) resume_.unsettled = true;
    change_ = Change{};
    recovery_.end(out_, startup_);
  }
  out_.look_again();
  if (mode == EndMode::kNow) {
    stop_everybody();
    out_.arm({TimerKind::kEnd, {}, {}}, out_.now() + settings_.grace + kEndMargin);
    return;
  }
  dismiss_others();
  if (mode == EndMode::kDraining) out_.arm({TimerKind::kGrace, {}, {}}, out_.now() + settings_.grace);
}

// A worker in no generation has nothing to wait for any more.
void Ending::dismiss_others() {
  for (auto& [id, worker] : roster_.workers()) {
    const bool over = worker.finished() || worker.left();
    if (!over && !training_.is_member(id) && !change_.in_flight(id)) workers_.dismiss(worker, end_.reason);
  }
}

// A recovery finds that no worker trains any more, as requested.
void Ending::end_without_members() {
  change_ = Change{};
  recovery_.end(out_, startup_);
  dismiss_others();
}

void Ending::stop_everybody() {
  for (auto& [id, worker] : roster_.workers()) workers_.stop(worker);
}

void Ending::fail_run(int status, const std::string& reason) {
  if (end_.mode == EndMode::kNow) return;
  out_.journal(record::Failed{status, reason}, true);
  out_.tell(Tell::Level::kError, reason);
  end_.suspended = false;
  begin_end(EndMode::kNow, status, reason);
}

// All members run the same steps: when one has finished, the others are about to.
void Ending::member_finished() {
  if (!end_.begun()) begin_end(EndMode::kFinishing, 0, "the program finished");
  out_.look_again();
  if (recovery_.active() || change_.stage != Stage::kCommitted || change_.any_active || training_.members.empty())
    return;
  const bool all_finished = std::all_of(training_.members.begin(), training_.members.end(), [&](WorkerId id) {
    const Worker* worker = roster_.worker(id);
    return worker == nullptr || worker->finished() || worker->left();
  });
  if (!all_finished) return;
  // The program ended before the boundary at which the joiners would have begun.
  for (WorkerId id : change_.members) {
    Worker* worker = roster_.worker(id);
    if (worker != nullptr && !training_.is_member(id)) workers_.dismiss(*worker, end_.reason);
  }
  change_ = Change{};
}

void Ending::advance_end() {
  const bool swapped = change_.stage == Stage::kCommitted && change_.waiting.empty();
  if (swapped && end_.mode != EndMode::kNow) completion_.complete();
  const bool settled = change_.stage != Stage::kCommitted && !recovery_.active() && !resume_.waiting;
  if (end_.mode == EndMode::kDraining && settled) drain_members();
  // An agent that is away may still have data to deliver, above all sample accounts.
  const bool waits = end_.mode != EndMode::kNow && resume_.waiting;
  if (roster_.workers().empty() && !waits && !awaits_accounts()) end_run();
}

bool Ending::returns_samples() const {
  return training_.synchronization == protocol::Synchronization::kPairAveraging;
}

// An agent that was given up for its silence may only have been stopped: it delivers its workers' sample accounts when
// it continues.
bool Ending::awaits_accounts() {
  if (end_.finished.empty() || agents_.silent().empty() || !audit_.ledger().used()) return false;
  audit_.ledger().returns_samples(returns_samples());
  const Ledger::Summary audit = audit_.ledger().summary();
  if (audit.missing == 0 && audit.open == 0) return false;
  if (accounts_timer_ != 0) return true;
  accounts_timer_ = out_.arm({TimerKind::kEnd, {}, {}}, out_.now() + settings_.grace);
  out_.journal(record::AccountsAwaited{audit.missing, audit.open, {agents_.silent().begin(), agents_.silent().end()}});
  out_.tell(Tell::Level::kInfo, "waiting for the last sample accounts of " + counted(agents_.silent().size(), "host") +
                                    " that stopped reporting, at most " + protocol::duration_text(settings_.grace));
  return true;
}

// The last generation has no members: all workers leave at the boundary.
void Ending::drain_members() {
  const bool anybody = std::any_of(training_.members.begin(), training_.members.end(), [&](WorkerId id) {
    const Worker* worker = roster_.worker(id);
    return worker != nullptr && !worker->finished() && !worker->dying();
  });
  if (!anybody || change_.retrying) return;
  if (change_.stage == Stage::kPreparing) {
    if (change_.waiting.empty()) runner_.commit();
    return;
  }
  change_.members.clear();
  change_.leavers = training_.members;
  change_.kind = protocol::ChangeKind::kStop;
  change_.reason = end_.reason;
  runner_.prepare();
}

void Ending::end_run() {
  if (end_.over) return;
  audit_.ledger().returns_samples(returns_samples());
  const bool has_failed = end_.mode == EndMode::kNow && end_.status != 0;
  const std::string failure = audit_.summarize(has_failed ? training_.members : std::vector<WorkerId>{});
  if (!failure.empty() && end_.status == 0) {
    end_.status = kStatusAuditFailed;
    end_.reason += ", but the audit failed: " + failure;
  }
  if (settings_.judge_end && !end_.suspended) {
    RunResult judged = settings_.judge_end({end_.status, end_.reason});
    end_.status = judged.status;
    end_.reason = std::move(judged.reason);
  }
  out_.journal(record::End{end_.status, end_.reason}, true);
  for (auto& [id, agent] : roster_.agents()) {
    if (agent.link != Link::kDown) hosts_.stop_agent(agent);
  }
  out_.emit(EndRun{end_.status, end_.reason, end_.suspended && end_.status == status_of(StopCause::kSuspended)});
  end_.over = true;
  ET_CHECK(end_.begun(), "a run that is over has a reason to end");
}

void Ending::limit_finish() {
  if (end_.mode != EndMode::kFinishing || std::exchange(end_.is_limited, true)) return;
  out_.arm({TimerKind::kGrace, {}, {}}, out_.now() + settings_.grace);
}

void Ending::grace_expired() {
  if (end_.mode == EndMode::kFinishing) {
    out_.tell(Tell::Level::kWarning,
              "the program has finished, but its processes did not end within the grace time: killing them now");
    begin_end(EndMode::kNow, end_.status, end_.reason);
    for (const auto& [id, worker] : roster_.workers()) out_.emit(StopWorker{id, 0});
    return;
  }
  if (end_.mode != EndMode::kDraining) return;
  out_.tell(Tell::Level::kWarning,
            "the workers did not reach a step boundary within the grace time: stopping them now");
  begin_end(EndMode::kNow, end_.status, end_.reason);
}

void Ending::account_arrived() {
  if (accounts_timer_ != 0) out_.look_again();
}

}  // namespace elastictrain::core
