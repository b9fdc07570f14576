#include "supervisor/core/hanging.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/losing.h"
#include "supervisor/core/newcomers.h"
#include "supervisor/core/pure/exit_text.h"
#include "supervisor/core/recovering.h"
#include "supervisor/core/workers.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {
namespace {

template <class HangRecord>
HangRecord hang_record(HangRecord about, const HangFinding& finding) {
  about.place = place_name(finding.place);
  about.step = finding.step;
  about.still_ms = finding.still_ms;
  about.limit_ms = finding.limit_ms;
  about.step_ms = finding.step_ms;
  about.quiet_ms = finding.quiet_ms;
  about.cpu_ms = finding.cpu_ms;
  about.reason = finding.why;
  return about;
}

}  // namespace

// A worker that has answered the fence of a recovery may idle until the recovery continues.
static bool is_waited_for(const Run& run, WorkerId id) {
  if (!run.recovery.active() || run.change.stage == Stage::kCommitted) return true;
  return run.recovery.waiting.contains(id) ||
         (run.change.stage == Stage::kPreparing && run.change.waiting.contains(id));
}

static void journal_hang(Run& run, const Worker& worker, const HangFinding& finding) {
  switch (finding.kind) {
    case HangFinding::Kind::kSuspected:
      return run.out.journal(hang_record(record::HangSuspected{.worker = worker.id, .host = worker.host}, finding));
    case HangFinding::Kind::kWithdrawn:
      return run.out.journal(hang_record(record::HangWithdrawn{.worker = worker.id, .host = worker.host}, finding));
    default:
      return run.out.journal(hang_record(record::Hang{.worker = worker.id, .host = worker.host}, finding));
  }
}

// Ask at the first look, because after the second one communicators are aborted and the service has nothing left to
// report. One answer covers the whole job: if all its workers are suspected at once, one question suffices. NCCL gives
// up on a process that does not answer after six seconds.
static void ask_about_collectives(Run& run, WorkerId doubtful) {
  constexpr Millis kTimeLimit{10'000};
  constexpr Millis kBetweenQuestions{2'000};
  if (run.collectives_asked && run.out.now() - *run.collectives_asked < kBetweenQuestions) return;
  run.collectives_asked = run.out.now();
  run.out.emit(AskAgent{{protocol::Question::kCollectives, doubtful, static_cast<std::uint64_t>(kTimeLimit.count())}});
}

// The members of one host: of the one that failed most often, among equals of the one with the fewest workers, then of
// the last in the order of ranks. If there is only one host: its last worker.
static std::vector<WorkerId> most_doubtful(const Run& run) {
  std::map<std::string, std::vector<WorkerId>> by_host;
  std::vector<std::string> order;
  for (WorkerId id : run.training.members) {
    const Worker* worker = run.roster.worker(id);
    if (worker == nullptr || worker->dying()) continue;
    if (by_host[worker->host].empty()) order.push_back(worker->host);
    by_host[worker->host].push_back(id);
  }
  if (order.empty()) return {};
  if (order.size() == 1) return {by_host[order[0]].back()};
  std::string doubtful = order[1];
  const auto doubt = [&](const std::string& host) {
    return std::pair(run.health.failures(host, run.out.now()), ~by_host[host].size());
  };
  for (std::size_t i = 2; i < order.size(); ++i) {
    if (doubt(order[i]) >= doubt(doubtful)) doubtful = order[i];
  }
  return by_host[doubtful];
}

// All workers wait in the all-reduce for one another. A new data plane may help; if it is stuck again, the network of
// one host is the cause.
static void reconnect_all(Run& run, const HangFinding& finding) {
  run.out.journal(hang_record(record::Stuck{.times = finding.times}, finding));
  const std::string text = "no all-reduce finished for " + protocol::duration_text(Millis(finding.still_ms)) +
                           " although every worker takes part";
  if (finding.times == 1) {
    run.out.tell(Tell::Level::kWarning, text + ": reconnecting the workers");
    forget_repaired_losses(run);
    want_recovery(run, text);
    return;
  }
  for (WorkerId id : most_doubtful(run)) {
    Worker* worker = run.roster.worker(id);
    if (worker == nullptr || worker->dying() || run.end.mode == EndMode::kNow) continue;
    end_hung(run, *worker, "could not finish an all-reduce with the others, twice in a row,",
             FailureClass::kInfrastructure);
  }
}

void act_on_hang(Run& run, const HangFinding& finding) {
  if (run.end.mode == EndMode::kNow) return;
  if (finding.kind == HangFinding::Kind::kStuck) {
    reconnect_all(run, finding);
    return;
  }
  if (finding.kind == HangFinding::Kind::kStandstill) return ask_about_collectives(run, finding.worker);
  Worker* worker = run.roster.worker(finding.worker);
  if (worker == nullptr || !worker->trains() || !is_waited_for(run, worker->id)) return;
  journal_hang(run, *worker, finding);
  if (finding.kind == HangFinding::Kind::kSuspected) ask_about_collectives(run, worker->id);
  if (finding.kind != HangFinding::Kind::kGuilty) return;
  end_hung(run, *worker,
           "made no progress for " + protocol::duration_text(Millis(finding.still_ms)) + " (" + finding.why + ")");
}

bool is_out_of_sight(const Run& run, const Worker& worker) {
  const Agent* agent = run.roster.agent(worker.agent);
  return agent != nullptr && (agent->cut_off || run.out.now() - agent->last_seen >= run.settings.suspect / 2);
}

// The worker does not do what it must: the others continue without it at once, and its process is killed as soon as its
// stacks are known.
void end_hung(Run& run, Worker& worker, const std::string& what, FailureClass as) {
  const WorkerId id = worker.id;
  const std::string name = name_of(run, worker);
  constexpr Millis kMargin{250};  // for the round trip to the agent
  constexpr int kKilled = 128 + kSignalKill;
  run.recovery.waiting.erase(id);
  run.hangs.forget(id);
  worker.order_end(EndOrder::kKill);
  run.out.cancel(worker.timer);
  const Millis limit = run.settings.failures.stacks_timeout;
  if (limit.count() > 0) {
    run.out.emit(AskAgent{{protocol::Question::kStacks, id, static_cast<std::uint64_t>(limit.count())}});
    worker.timer = run.out.arm({TimerKind::kStacks, id, {}}, run.out.now() + limit + kMargin);
  } else {
    end_for_good(run, worker);
  }
  const FailureClass failure = is_out_of_sight(run, worker) ? FailureClass::kInfrastructure : as;
  if (failure == FailureClass::kHang && newcomer_hung(run, id, name + " " + what + " and was ended")) return;
  lose_member(run, {failure, kKilled, worker.host, name + " " + what + " and was ended", "", false});
}

static void collectives_known(Run& run, const AgentAnswered& event) {
  const Agent* agent = run.roster.agent(event.agent);
  if (agent == nullptr) return;
  run.out.journal(record::Collectives{agent->host, event.answer.lines});
}

static void stacks_known(Run& run, const AgentAnswered& event) {
  Worker* worker = run.roster.worker(event.answer.worker);
  if (worker == nullptr) return;
  run.out.journal(record::Stacks{worker->id, worker->host, event.answer.lines});
  if (worker->hung() && worker->timer != 0) end_for_good(run, *worker);
}

void on(Run& run, const AgentAnswered& event) {
  switch (event.answer.question) {
    case protocol::Question::kStacks:
      return stacks_known(run, event);
    case protocol::Question::kCollectives:
      return collectives_known(run, event);
  }
}

}  // namespace elastictrain::core
