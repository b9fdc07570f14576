#include "supervisor/core/hang_judge.h"

#include <map>
#include <utility>

#include "supervisor/core/change.h"
#include "supervisor/core/exit_text.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/host_health.h"
#include "supervisor/core/newcomer_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"
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

HangJudge::HangJudge(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
                     Recovery& recovery, RunEnd& end, HangDetector& hangs, HostHealth& health, WorkerControl& workers,
                     FailureJudge& judge, Halt& halt, NewcomerJudge& newcomers)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      end_(end),
      hangs_(hangs),
      health_(health),
      workers_(workers),
      judge_(judge),
      halt_(halt),
      newcomers_(newcomers) {}

// A worker that has answered the fence of a recovery may idle until the recovery continues.
bool HangJudge::is_waited_for(WorkerId id) const {
  if (!recovery_.active() || change_.stage == Stage::kCommitted) return true;
  return recovery_.waiting.contains(id) || (change_.stage == Stage::kPreparing && change_.waiting.contains(id));
}

void HangJudge::act_on(const HangFinding& finding) {
  if (end_.mode == EndMode::kNow) return;
  if (finding.kind == HangFinding::Kind::kStuck) {
    reconnect_all(finding);
    return;
  }
  if (finding.kind == HangFinding::Kind::kStandstill) return ask_about_collectives(finding.worker);
  Worker* worker = roster_.worker(finding.worker);
  if (worker == nullptr || !worker->trains() || !is_waited_for(worker->id)) return;
  journal_hang(*worker, finding);
  if (finding.kind == HangFinding::Kind::kSuspected) ask_about_collectives(worker->id);
  if (finding.kind != HangFinding::Kind::kGuilty) return;
  end_hung(*worker,
           "made no progress for " + protocol::duration_text(Millis(finding.still_ms)) + " (" + finding.why + ")");
}

void HangJudge::journal_hang(const Worker& worker, const HangFinding& finding) {
  switch (finding.kind) {
    case HangFinding::Kind::kSuspected:
      return out_.journal(hang_record(record::HangSuspected{.worker = worker.id, .host = worker.host}, finding));
    case HangFinding::Kind::kWithdrawn:
      return out_.journal(hang_record(record::HangWithdrawn{.worker = worker.id, .host = worker.host}, finding));
    default:
      return out_.journal(hang_record(record::Hang{.worker = worker.id, .host = worker.host}, finding));
  }
}

// Ask at the first look, because after the second one communicators are aborted and the service has nothing left to
// report. One answer covers the whole job: if all its workers are suspected at once, one question suffices. NCCL gives
// up on a process that does not answer after six seconds.
void HangJudge::ask_about_collectives(WorkerId doubtful) {
  constexpr Millis kTimeLimit{10'000};
  constexpr Millis kBetweenQuestions{2'000};
  if (collectives_asked_ && out_.now() - *collectives_asked_ < kBetweenQuestions) return;
  collectives_asked_ = out_.now();
  out_.emit(AskAgent{{protocol::Question::kCollectives, doubtful, static_cast<std::uint64_t>(kTimeLimit.count())}});
}

void HangJudge::collectives_known(const AgentAnswered& event) {
  const Agent* agent = roster_.agent(event.agent);
  if (agent == nullptr) return;
  out_.journal(record::Collectives{agent->host, event.answer.lines});
}

// All workers wait in the all-reduce for one another. A new data plane may help; if it is stuck again, the network of
// one host is the cause.
void HangJudge::reconnect_all(const HangFinding& finding) {
  out_.journal(hang_record(record::Stuck{.times = finding.times}, finding));
  const std::string text = "no all-reduce finished for " + protocol::duration_text(Millis(finding.still_ms)) +
                           " although every worker takes part";
  if (finding.times == 1) {
    out_.tell(Tell::Level::kWarning, text + ": reconnecting the workers");
    judge_.forget_repaired_losses();
    halt_.recover(text);
    return;
  }
  for (WorkerId id : max_doubtful()) {
    Worker* worker = roster_.worker(id);
    if (worker == nullptr || worker->dying() || end_.mode == EndMode::kNow) continue;
    end_hung(*worker, "could not finish an all-reduce with the others, twice in a row,", FailureClass::kInfrastructure);
  }
}

// The members of one host: of the one that failed most often, among equals of the one with the fewest workers, then of
// the last in the order of ranks. If there is only one host: its last worker.
std::vector<WorkerId> HangJudge::max_doubtful() const {
  std::map<std::string, std::vector<WorkerId>> by_host;
  std::vector<std::string> order;
  for (WorkerId id : training_.members) {
    const Worker* worker = roster_.worker(id);
    if (worker == nullptr || worker->dying()) continue;
    if (by_host[worker->host].empty()) order.push_back(worker->host);
    by_host[worker->host].push_back(id);
  }
  if (order.empty()) return {};
  if (order.size() == 1) return {by_host[order[0]].back()};
  std::string doubtful = order[1];
  const auto doubt = [&](const std::string& host) {
    return std::pair(health_.failures(host, out_.now()), ~by_host[host].size());
  };
  for (std::size_t i = 2; i < order.size(); ++i) {
    if (doubt(order[i]) >= doubt(doubtful)) doubtful = order[i];
  }
  return by_host[doubtful];
}

// The worker does not do what it must: the others continue without it at once, and its process is killed as soon as its
// stacks are known.
void HangJudge::end_hung(Worker& worker, const std::string& what, FailureClass as) {
  const WorkerId id = worker.id;
  const std::string name = workers_.name_of(worker);
  constexpr Millis kMargin{250};  // for the round trip to the agent
  constexpr int kKilled = 128 + kSignalKill;
  recovery_.waiting.erase(id);
  hangs_.forget(id);
  worker.order_end(EndOrder::kKill);
  out_.cancel(worker.timer);
  const Millis limit = settings_.failures.stacks_timeout;
  if (limit.count() > 0) {
    out_.emit(AskAgent{{protocol::Question::kStacks, id, static_cast<std::uint64_t>(limit.count())}});
    worker.timer = out_.arm({TimerKind::kStacks, id, {}}, out_.now() + limit + kMargin);
  } else {
    workers_.end_for_good(worker);
  }
  const FailureClass failure = is_out_of_sight(worker) ? FailureClass::kInfrastructure : as;
  if (failure == FailureClass::kHang && newcomers_.hung(id, name + " " + what + " and was ended")) return;
  judge_.lose_member({failure, kKilled, worker.host, name + " " + what + " and was ended", "", false});
}

// What its program does is not known: two heartbeats of its host are missing, or its agent is cut off.
bool HangJudge::is_out_of_sight(const Worker& worker) const {
  const Agent* agent = roster_.agent(worker.agent);
  return agent != nullptr && (agent->cut_off || out_.now() - agent->last_seen >= settings_.suspect / 2);
}

void HangJudge::on(const AgentAnswered& event) {
  switch (event.answer.question) {
    case protocol::Question::kStacks:
      return stacks_known(event);
    case protocol::Question::kCollectives:
      return collectives_known(event);
  }
}

void HangJudge::stacks_known(const AgentAnswered& event) {
  Worker* worker = roster_.worker(event.answer.worker);
  if (worker == nullptr) return;
  out_.journal(record::Stacks{worker->id, worker->host, event.answer.lines});
  if (worker->hung() && worker->timer != 0) workers_.end_for_good(*worker);
}

}  // namespace elastictrain::core
