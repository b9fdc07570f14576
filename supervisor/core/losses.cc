#include "supervisor/core/losses.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/ending.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/recovering.h"
#include "supervisor/core/starting.h"
#include "supervisor/core/workers.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::core {
namespace {

record::Exited exit_record(const Worker& worker, const WorkerExited& event) {
  record::Exited exited{worker.id, worker.host, event.exit_code, event.signal, event.last_error_lines, {}, {}, {}};
  if (event.out_of_memory) {
    exited.out_of_memory = true;
    exited.memory_limit_bytes = event.memory_limit_bytes;
    exited.peak_bytes = event.peak_bytes;
  }
  return exited;
}

constexpr std::uint32_t kMostOutOfMemory = 3;

}  // namespace

static void judge_unfinished_exit(Run& run, const Worker& worker, const WorkerExited& event) {
  const bool good = event.signal == 0 && event.exit_code == 0;
  const std::string what = (good ? "exited before its training ended: it " : "") + exit_text(event);
  const std::string detail = last_words(event);
  const bool first_start = run.training.generation == 0 && !run.training.restarting && !worker.assigned() && !good;
  const bool counts = !run.startup.elastic || run.change.plans(worker.id);
  if (first_start && counts) {
    if (run.startup.is_plain() && restart_plain(run, name_of(run, worker) + " " + what)) return;
    fail_run(run, exit_status_of(event), name_of(run, worker) + " " + what + detail);
    return;
  }
  if (!worker.assigned()) {
    drop_joiner(run, worker, what + detail, Retry::kOnce);
    if (good) ended_before_joining(run, name_of(run, worker) + " " + what + detail);
    return;
  }
  // A drain asks members to end, and the end of the program asks joiners to. A worker that exits without a message has
  // complied, but the others may wait for it in a collective.
  if (good && (run.end.mode == EndMode::kDraining || run.end.mode == EndMode::kFinishing)) {
    want_recovery(run, name_of(run, worker) + " " + what);
    return;
  }
  // A sender of TERM and then KILL, as a batch system is, takes the worker away; the worker has not failed.
  const bool taken = worker.noticed != Noticed::kNo && event.signal == kSignalKill;
  const bool preempted = event.signal == kSignalTerm || taken;
  const bool by_itself = event.signal != kSignalKill && !preempted;
  if (!preempted && newcomer_exited(run, worker.id, by_itself, good, name_of(run, worker) + " " + what + detail))
    return;
  lose_member(run, {preempted ? FailureClass::kPreemption : FailureClass::kCrash, exit_status_of(event), worker.host,
                    name_of(run, worker) + " " + what, detail, by_itself, event.out_of_memory});
}

static void judge_exit(Run& run, const Worker& worker, const WorkerExited& event) {
  const bool good = event.signal == 0 && event.exit_code == 0;
  if (worker.left() || (worker.dying() && !worker.finished())) {
    if (!good && worker.left())
      run.out.tell(Tell::Level::kWarning, name_of(run, worker) + " left, then " + exit_text(event));
    return;
  }
  if (worker.finished()) {
    if (!good)
      fail_run(run, exit_status_of(event),
               name_of(run, worker) + " finished, then " + exit_text(event) + last_words(event));
    return;
  }
  if (good && !worker.greeted() && run.training.generation == 0) {
    ++run.startup.plain_finished;
    return;
  }
  judge_unfinished_exit(run, worker, event);
}

void on(Run& run, const WorkerExited& event) {
  const Worker* found = run.roster.worker(event.worker);
  if (found == nullptr) return;
  const Worker worker = *found;
  run.out.journal(exit_record(worker, event));
  remove_worker(run, worker.id);
  if (run.end.mode != EndMode::kNow) judge_exit(run, worker, event);
  run.probation.forget(worker.id);
}

// A third worker would be killed like the two before it. With fewer workers each may have more memory. Workers that the
// kernel kills together count as one.
static void note_out_of_memory(Run& run, const Loss& loss) {
  if (std::exchange(run.losses.oom_generation, run.training.generation) == run.training.generation) return;
  const std::size_t size = run.training.members.size();
  if (run.losses.oom_row.size != size || run.out.now() - run.losses.oom_row.last > run.settings.failures.window)
    run.losses.oom_row = {size, 0, {}};
  run.losses.oom_row.last = run.out.now();
  if (++run.losses.oom_row.count < kMostOutOfMemory || run.end.begun()) return;
  const auto& workers = run.roster.workers();
  const auto left = static_cast<std::uint32_t>(
      std::count_if(workers.begin(), workers.end(), [](const auto& entry) { return entry.second.trains(); }));
  const std::string why = counted(run.losses.oom_row.count, "worker") +
                          " in a row were killed for want of memory at a size of " + std::to_string(size) +
                          "; the last: " + loss.text;
  run.losses.oom_row = {};
  if (left < std::max(run.settings.min_workers, 1U)) {
    run.out.tell(Tell::Level::kWarning, why + ". Another one is started, because at least " +
                                            counted(run.settings.min_workers, "worker") +
                                            " must train: give it more memory, or lower workers.min or the batch");
    return;
  }
  refuse_growth(run, left, why);
}

// The only place where the failure budgets are checked. A run that cannot tolerate the loss ends here.
static void charge(Run& run, const Loss& loss) {
  const auto end = run.losses.budget.charge(loss, run.out.now());
  run.out.journal(record::Loss{class_name(loss.what), run.losses.budget.count(loss.what, run.out.now()), loss.text});
  if (end) fail_run(run, end->status, end->reason);
}

void lose_member(Run& run, const Loss& loss) {
  if (run.end.mode == EndMode::kNow) return;
  forget_repaired_losses(run);
  run.losses.recent.push_back(loss);
  if (run.end.mode == EndMode::kFinishing && run.roster.nobody_trains()) {
    end_without(run, loss, "; the training had ended before");
    return;
  }
  charge(run, loss);
  if (run.end.mode == EndMode::kNow) return;
  if (!run.end.begun() && run.settings.failures.on_failure == OnFailure::kStop) {
    fail_run(run, loss.status, loss.text + loss.detail);
    return;
  }
  const std::uint32_t size =
      run.settings.leased ? std::min(run.desired.target, run.desired.lease.slots) : run.desired.target;
  if (run.settings.failures.on_failure == OnFailure::kShrink && size > run.settings.min_workers) {
    run.desired.target = size - 1;
    run.desired.target_reason = "a worker was lost";
    run.out.journal(record::Target{run.desired.target, run.desired.target_reason});
  }
  run.out.tell(Tell::Level::kWarning, loss.text + loss.detail);
  if (loss.out_of_memory) note_out_of_memory(run, loss);
  blame_host(run, loss);
  want_recovery(run, loss.text);
}

void forget_repaired_losses(Run& run) {
  if (!run.recovery.active_or_wanted() && run.losses.progressed) run.losses.recent.clear();
}

// The last worker of a run that ends anyway is lost: the planned end stands. A worker that has finished has seen that
// all data was used, so nothing is lost with the rest. A program that fails at its end has failed all the same.
void end_without(Run& run, const Loss& loss, const char* why) {
  if (loss.by_itself) {
    fail_run(run, loss.status, loss.text + loss.detail);
    return;
  }
  run.out.tell(Tell::Level::kWarning, loss.text + why);
  want_end(run, EndMode::kNow, run.end.status, run.end.reason);
}

bool is_bad_code(const Run& run) {
  const bool all_by_themselves =
      !run.losses.recent.empty() &&
      std::all_of(run.losses.recent.begin(), run.losses.recent.end(), [](const Loss& loss) { return loss.by_itself; });
  if (!all_by_themselves || !run.training.members.empty()) return false;
  return run.losses.recent.size() > 1 || !run.settings.has_checkpoints || !run.recovery.progress;
}

void note_progress(Run& run, const protocol::WorkerHeartbeat& heartbeat) {
  if (heartbeat.generation >= run.losses.progress_generation && heartbeat.step >= run.losses.progress_step)
    run.losses.progressed = true;
}

// Called once for each fence.
void note_recovery(Run& run) {
  const bool progress = run.losses.progressed || run.recovery.resume_step >= run.losses.progress_step;
  run.recovery.progress = progress;
  run.losses.progressed = false;
  run.losses.progress_generation = run.recovery.fence + 1;
  run.losses.progress_step = run.recovery.resume_step + 1;
  if (run.recovery.of_newcomers && run.recovery.reasons.size() == 1) return;
  if (const auto end = run.losses.budget.recovers(progress, run.recovery.resume_step, run.recovery.cause()))
    fail_run(run, end->status, end->reason);
}

void count_progress_from(Run& run, Generation generation, Step first_step) {
  run.losses.progress_generation = generation;
  run.losses.progress_step = first_step;
}

// With only one host, a crash of the program is no evidence against the host.
void blame_host(Run& run, const Loss& loss) {
  if (loss.host.empty() || loss.what == FailureClass::kPreemption) return;
  const auto& agents = run.roster.agents();
  const bool others = std::any_of(agents.begin(), agents.end(), [&](const auto& entry) {
    return entry.second.host != loss.host && entry.second.usable();
  });
  if (loss.what != FailureClass::kInfrastructure && !others) return;
  const bool cooled_before = !run.health.usable(loss.host, run.out.now());
  const std::uint32_t failures_before = run.health.failures(loss.host, run.out.now());
  const auto until = run.health.failed(loss.host, loss.text, run.out.now());
  if (!until || run.health.failures(loss.host, run.out.now()) == failures_before) return;
  run.out.journal(record::HostCooled{loss.host, run.health.failures(loss.host, run.out.now()),
                                     std::chrono::duration_cast<Millis>(*until - run.out.now()).count(), loss.text});
  run.out.arm({TimerKind::kCooled, {}, {}}, *until);
  if (!cooled_before) run.out.tell(Tell::Level::kWarning, run.health.text(loss.host, run.out.now()));
}

void trust_hosts(Run& run) {
  std::set<std::string> train;
  for (WorkerId id : run.training.members) {
    if (const Worker* worker = run.roster.worker(id)) train.insert(worker->host);
  }
  for (const auto& [id, agent] : run.roster.agents()) {
    if (train.contains(agent.host)) {
      run.health.trains(agent.host, run.out.now());
    } else {
      run.health.rests(agent.host);
    }
  }
}

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

Millis out_of_sight_after(const RunSettings& settings) {
  return settings.suspect / 2;
}

bool is_out_of_sight(const Run& run, const Worker& worker) {
  const Agent* agent = run.roster.agent(worker.agent);
  if (agent == nullptr) return false;
  const Instant recent = run.out.now() - out_of_sight_after(run.settings);
  return agent->cut_off || agent->last_seen <= recent || (agent->seen_again && *agent->seen_again > recent);
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
