// The part of the state machine that judges exits and losses: whose fault they are, and whether the run tolerates them.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "supervisor/core/membership_impl.h"
#include "supervisor/core/words.h"

namespace elastictrain::core {
namespace {

constexpr std::int32_t kSignalKill = 9;
constexpr std::int32_t kSignalTerm = 15;

std::string exit_text(const WorkerExited& event) {
  if (event.signal != 0) return "was killed by signal " + std::to_string(event.signal);
  return "exited with status " + std::to_string(event.exit_code);
}

// The status that a shell would show, without the values that shells and batch systems use for their own errors.
int status_of(const WorkerExited& event) {
  if (event.signal != 0) return 128 + event.signal;
  return event.exit_code >= 1 && event.exit_code <= 125 ? event.exit_code : 1;
}

std::string last_lines(const std::vector<std::string>& lines) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = lines.size() > kShown ? lines.size() - kShown : 0; i < lines.size(); ++i) {
    text += "\n  " + lines[i];
  }
  return text.empty() ? text : "; its last error output:" + text;
}

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

void Membership::Impl::on(const WorkerExited& event) {
  const Worker* found = roster_.worker(event.worker);
  if (found == nullptr) return;
  const Worker worker = *found;
  journal(record::Exited{worker.id, worker.host, event.exit_code, event.signal, event.last_error_lines});
  bury(worker.id);
  if (end_.mode != EndMode::kNow) judge_exit(worker, event);
}

void Membership::Impl::judge_exit(const Worker& worker, const WorkerExited& event) {
  const bool good = event.signal == 0 && event.exit_code == 0;
  if (worker.left || (worker.dying && !worker.finished)) {
    if (!good && worker.left) tell(Tell::Level::kWarning, name_of(worker) + " left, then " + exit_text(event));
    return;
  }
  if (worker.finished) {
    if (!good)
      fail_run(status_of(event),
               name_of(worker) + " finished, then " + exit_text(event) + last_lines(event.last_error_lines));
    return;
  }
  if (good && !worker.hello && generation_ == 0) {
    ++plain_finished_;
    return;
  }
  judge_unfinished_exit(worker, event);
}

void Membership::Impl::judge_unfinished_exit(const Worker& worker, const WorkerExited& event) {
  const bool good = event.signal == 0 && event.exit_code == 0;
  const std::string what = (good ? "exited before its training ended: it " : "") + exit_text(event);
  const std::string detail = last_lines(event.last_error_lines);
  const auto& starting = change_.members;
  const bool first_start = generation_ == 0 && !restarting_ && !worker.seated && !good;
  const bool counts = !elastic_ || std::find(starting.begin(), starting.end(), worker.id) != starting.end();
  if (first_start && counts) {
    fail_run(status_of(event), name_of(worker) + " " + what + detail);
    return;
  }
  if (!worker.seated) {
    drop_joiner(worker, what + detail, Retry::kOnce);
    return;
  }
  // A drain asks members to end, and the end of the program asks joiners to. A worker that exits without a message has
  // complied, but the others may wait for it in a collective.
  if (good && (end_.mode == EndMode::kDraining || end_.mode == EndMode::kFinishing)) {
    recover(name_of(worker) + " " + what);
    return;
  }
  // A sender of TERM and then KILL, as a batch system is, takes the worker away; the worker has not failed.
  const bool taken = worker.noticed != Noticed::kNo && event.signal == kSignalKill;
  const bool preempted = event.signal == kSignalTerm || taken;
  lose_member({preempted ? FailureClass::kPreemption : FailureClass::kCrash, status_of(event), worker.host,
               name_of(worker) + " " + what, detail, event.signal != kSignalKill && !preempted});
}

// A member of a generation has exited, or is about to be ended; the roster is already updated.
void Membership::Impl::lose_member(Loss loss) {
  if (end_.mode == EndMode::kNow) return;
  forget_repaired_losses();
  losses_.push_back(loss);
  if (end_.mode == EndMode::kFinishing && nobody_else_trains()) {
    end_without(loss, "; the training had ended before");
    return;
  }
  charge(loss);
  if (end_.mode == EndMode::kNow) return;
  if (end_.mode == EndMode::kNone && settings_.failures.on_failure == OnFailure::kStop) {
    fail_run(loss.status, loss.text + loss.detail);
    return;
  }
  if (settings_.failures.on_failure == OnFailure::kShrink && target_ > settings_.min_workers) {
    --target_;
    target_reason_ = "a worker was lost";
    journal(record::Target{target_, target_reason_});
  }
  tell(Tell::Level::kWarning, loss.text + loss.detail);
  blame_host(loss);
  recover(loss.text);
}

void Membership::Impl::forget_repaired_losses() {
  if (!recovering() && progressed_) losses_.clear();
}

// The last worker of a run that ends anyway is lost: the planned end stands. A worker that has finished has seen that
// all data was used, so nothing is lost with the rest. A program that fails at its end has failed all the same.
void Membership::Impl::end_without(const Loss& loss, const char* why) {
  if (loss.by_itself) {
    fail_run(loss.status, loss.text + loss.detail);
    return;
  }
  tell(Tell::Level::kWarning, loss.text + why);
  begin_end(EndMode::kNow, end_.status, end_.reason);
}

bool Membership::Impl::nobody_else_trains() const {
  return std::none_of(roster_.workers().begin(), roster_.workers().end(),
                      [](const auto& entry) { return entry.second.trains(); });
}

// The only place where the failure budgets are checked. A run that cannot tolerate the loss ends here.
void Membership::Impl::charge(const Loss& loss) {
  const auto end = budget_.charge(loss, now_);
  journal(record::Loss{class_name(loss.what), budget_.count(loss.what, now_), loss.text});
  if (end) fail_run(end->status, end->reason);
}

// With only one host, a crash of the program is no evidence against the host.
void Membership::Impl::blame_host(const Loss& loss) {
  if (loss.host.empty() || loss.what == FailureClass::kPreemption) return;
  const auto& agents = roster_.agents();
  const bool others = std::any_of(agents.begin(), agents.end(), [&](const auto& entry) {
    return entry.second.host != loss.host && entry.second.usable();
  });
  if (loss.what != FailureClass::kInfrastructure && !others) return;
  const bool cooled_before = !health_.usable(loss.host, now_);
  const std::uint32_t failures_before = health_.failures(loss.host, now_);
  const auto until = health_.failed(loss.host, loss.text, now_);
  if (!until || health_.failures(loss.host, now_) == failures_before) return;
  journal(record::HostCooled{loss.host, health_.failures(loss.host, now_),
                             std::chrono::duration_cast<Millis>(*until - now_).count(), loss.text});
  arm({TimerKind::kCooled, {}, {}}, *until);
  if (!cooled_before) tell(Tell::Level::kWarning, health_.text(loss.host, now_));
}

// A generation is complete: hosts that failed before are on probation from here on.
void Membership::Impl::judge_success() {
  std::set<std::string> train;
  for (WorkerId id : members_) {
    if (const Worker* worker = roster_.worker(id)) train.insert(worker->host);
  }
  for (const auto& [id, agent] : roster_.agents()) {
    if (train.contains(agent.host)) {
      health_.trains(agent.host, now_);
    } else {
      health_.rests(agent.host);
    }
  }
}

void Membership::Impl::watch_for_hangs(Generation generation, const std::vector<WorkerId>& members) {
  std::vector<WorkerId> trains;
  for (WorkerId id : members) {
    const Worker* worker = roster_.worker(id);
    if (worker != nullptr && !worker->finished) trains.push_back(id);
  }
  hangs_.seat(generation, trains);
}

// A worker that has answered the fence of a recovery may idle until the recovery continues.
bool Membership::Impl::is_waited_for(WorkerId id) const {
  if (!recovering() || change_.stage == Stage::kCommitted) return true;
  return recovery_.waiting.contains(id) || (change_.stage == Stage::kPreparing && change_.waiting.contains(id));
}

void Membership::Impl::act_on(const HangFinding& finding) {
  if (end_.mode == EndMode::kNow) return;
  if (finding.kind == HangFinding::Kind::kStuck) {
    unstick(finding);
    return;
  }
  if (finding.kind == HangFinding::Kind::kStandstill) return ask_about_collectives(finding.worker);
  Worker* worker = roster_.worker(finding.worker);
  if (worker == nullptr || !worker->trains() || !is_waited_for(worker->id)) return;
  journal_hang(*worker, finding);
  if (finding.kind == HangFinding::Kind::kSuspected) ask_about_collectives(worker->id);
  if (finding.kind != HangFinding::Kind::kGuilty) return;
  end_hung(*worker, "made no progress for " + std::to_string(finding.still_ms) + " ms (" + finding.why + ")");
}

void Membership::Impl::journal_hang(const Worker& worker, const HangFinding& finding) {
  switch (finding.kind) {
    case HangFinding::Kind::kSuspected:
      return journal(hang_record(record::HangSuspected{.worker = worker.id, .host = worker.host}, finding));
    case HangFinding::Kind::kWithdrawn:
      return journal(hang_record(record::HangWithdrawn{.worker = worker.id, .host = worker.host}, finding));
    default:
      return journal(hang_record(record::Hang{.worker = worker.id, .host = worker.host}, finding));
  }
}

// Ask at the first look, because after the second one communicators are aborted and the service has nothing left to
// report. One answer covers the whole job: if all its workers are suspected at once, one question suffices. NCCL gives
// up on a process that does not answer after six seconds.
void Membership::Impl::ask_about_collectives(WorkerId doubtful) {
  constexpr Millis kTimeLimit{10'000};
  constexpr Millis kBetweenQuestions{2'000};
  if (collectives_asked_ && now_ - *collectives_asked_ < kBetweenQuestions) return;
  collectives_asked_ = now_;
  emit(AskAgent{{protocol::Question::kCollectives, doubtful, static_cast<std::uint64_t>(kTimeLimit.count())}});
}

void Membership::Impl::collectives_known(const AgentAnswered& event) {
  const Agent* agent = roster_.agent(event.agent);
  if (agent == nullptr) return;
  journal(record::Collectives{agent->host, event.answer.lines});
}

// All workers wait in the all-reduce for one another. A new data plane may help; if it is stuck again, the network of
// one host is the cause.
void Membership::Impl::unstick(const HangFinding& finding) {
  journal(hang_record(record::Stuck{.times = finding.times}, finding));
  const std::string text =
      "no all-reduce finished for " + std::to_string(finding.still_ms) + " ms although every worker takes part";
  if (finding.times == 1) {
    tell(Tell::Level::kWarning, text + ": reconnecting the workers");
    forget_repaired_losses();
    recover(text);
    return;
  }
  for (WorkerId id : most_doubtful()) {
    Worker* worker = roster_.worker(id);
    if (worker == nullptr || worker->dying || end_.mode == EndMode::kNow) continue;
    end_hung(*worker, "could not finish an all-reduce with the others, twice in a row,", FailureClass::kInfrastructure);
  }
}

// The members of one host: of the one that failed most often, among equals of the one with the fewest workers, then of
// the last in the order of ranks. If there is only one host: its last worker.
std::vector<WorkerId> Membership::Impl::most_doubtful() const {
  std::map<std::string, std::vector<WorkerId>> by_host;
  std::vector<std::string> order;
  for (WorkerId id : members_) {
    const Worker* worker = roster_.worker(id);
    if (worker == nullptr || worker->dying) continue;
    if (by_host[worker->host].empty()) order.push_back(worker->host);
    by_host[worker->host].push_back(id);
  }
  if (order.empty()) return {};
  if (order.size() == 1) return {by_host[order[0]].back()};
  std::string doubtful = order[1];
  const auto doubt = [&](const std::string& host) {
    return std::pair(health_.failures(host, now_), ~by_host[host].size());
  };
  for (std::size_t i = 2; i < order.size(); ++i) {
    if (doubt(order[i]) >= doubt(doubtful)) doubtful = order[i];
  }
  return by_host[doubtful];
}

// The worker does not do what it must: the others continue without it at once, and its process is killed as soon as its
// stacks are known.
void Membership::Impl::end_hung(Worker& worker, const std::string& what, FailureClass as) {
  const WorkerId id = worker.id;
  const std::string name = name_of(worker);
  constexpr Millis kMargin{250};  // for the round trip to the agent
  constexpr int kKilled = 128 + kSignalKill;
  recovery_.waiting.erase(id);
  hangs_.forget(id);
  worker.dying = true;
  worker.stop_sent = true;
  worker.hung = true;
  cancel(worker.timer);
  const Millis limit = settings_.failures.stacks_timeout;
  if (limit.count() > 0) {
    emit(AskAgent{{protocol::Question::kStacks, id, static_cast<std::uint64_t>(limit.count())}});
    worker.timer = arm({TimerKind::kStacks, id, {}}, now_ + limit + kMargin);
  } else {
    end_for_good(worker);
  }
  lose_member({as, kKilled, worker.host, name + " " + what + " and was ended", "", false});
}

void Membership::Impl::end_for_good(Worker& worker) {
  cancel(worker.timer);
  journal(record::Killed{worker.id, worker.host});
  emit(StopWorker{worker.id, 0});
}

void Membership::Impl::on(const AgentAnswered& event) {
  switch (event.answer.question) {
    case protocol::Question::kStacks: return stacks_known(event);
    case protocol::Question::kCollectives: return collectives_known(event);
  }
}

void Membership::Impl::stacks_known(const AgentAnswered& event) {
  Worker* worker = roster_.worker(event.answer.worker);
  if (worker == nullptr) return;
  journal(record::Stacks{worker->id, worker->host, event.answer.lines});
  if (worker->hung && worker->timer != 0) end_for_good(*worker);
}

}  // namespace elastictrain::core
