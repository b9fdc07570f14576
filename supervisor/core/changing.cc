#include "supervisor/core/changing.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/ending.h"
#include "supervisor/core/losses.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/pure/swap_plan.h"
#include "supervisor/core/recovering.h"
#include "supervisor/core/starting.h"
#include "supervisor/core/workers.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::core {
namespace {

constexpr std::uint32_t kSwapRetries = 3;
constexpr Millis kFirstSwapRetryDelay{500};  // doubles with each

}  // namespace

std::vector<std::uint32_t> shares_of(const protocol::GenerationPlan& plan) {
  std::vector<std::uint32_t> shares;
  for (const protocol::Member& member : plan.members) shares.push_back(member.share);
  return shares;
}

static std::vector<WorkerId> addressees(const Run& run) {
  std::set<WorkerId> ids(run.change.members.begin(), run.change.members.end());
  ids.insert(run.training.members.begin(), run.training.members.end());
  std::vector<WorkerId> list;
  for (WorkerId id : ids) {
    const Worker* worker = run.roster.worker(id);
    if (worker != nullptr && !worker->finished() && !worker->stop_sent()) list.push_back(id);
  }
  return list;
}

// In a recovery a member that lacks the newest state is one of the workers that receive it.
static bool joins(const Run& run, WorkerId id) {
  return !run.training.is_member(id) || (run.recovery.active() && !run.recovery.holds_state(run.roster.worker(id)));
}

static std::vector<double> speeds_of(const Run& run, const std::vector<PlanMember>& members) {
  std::vector<double> speeds;
  if (run.desired.speeds.empty()) return speeds;
  for (const PlanMember& member : members) {
    const auto known = run.desired.speeds.find(member.worker);
    speeds.push_back(known == run.desired.speeds.end() ? 1.0 : known->second);
  }
  return speeds;
}

static bool some_state_goes_away(const Run& run) {
  const auto& members = run.training.members;
  return !run.settings.leased && std::any_of(members.begin(), members.end(), [&](WorkerId id) {
    const Worker* worker = run.roster.worker(id);
    const Agent* agent = worker == nullptr ? nullptr : run.roster.agent(worker->agent);
    return agent != nullptr && agent->goes_away();
  });
}

static protocol::GenerationPlan next_plan(const Run& run) {
  std::vector<PlanMember> members;
  for (WorkerId id : run.change.members) {
    const Worker& worker = *run.roster.worker(id);
    members.push_back({id, worker.host, worker.facts.endpoint, !joins(run, id)});
  }
  protocol::GenerationPlan plan =
      make_plan(run.settings, run.change.generation, run.training.generation, members, speeds_of(run, members));
  plan.kind = run.change.kind;
  plan.reason = run.change.reason;
  plan.token = run.make_token();
  plan.lineage = run.training.lineage;
  plan.saves = run.settings.has_checkpoints && some_state_goes_away(run);
  if (!run.recovery.active()) return plan;
  // The open step began this way; a different desired state follows as a separate change.
  if (run.training.generation != 0) plan.synchronization = run.training.synchronization;
  plan.fence = run.recovery.fence;
  plan.resume_step = run.recovery.resume_step;
  for (WorkerId id : run.training.members) {
    if (members.empty() && run.recovery.holds_state(run.roster.worker(id))) plan.donors.push_back(id);
  }
  return plan;
}

static record::Prepare record_of(const Run& run, const protocol::GenerationPlan& plan) {
  record::Prepare about{.generation = plan.generation,
                        .previous = plan.previous,
                        .kind = plan.kind,
                        .reason = plan.reason,
                        .members = run.change.members,
                        .leavers = run.change.leavers,
                        .shares = shares_of(plan),
                        .donors = plan.donors,
                        .learning_rate_factor = plan.learning_rate_factor};
  const std::string topology = protocol::text_of(plan.topology, plan.parents);
  if (topology != protocol::name_of(protocol::Topology::kAuto)) about.topology = topology;
  if (plan.synchronization != protocol::Synchronization::kGradients) about.synchronization = plan.synchronization;
  if (!run.recovery.active()) return about;
  about.fence = plan.fence;
  about.resume_step = plan.resume_step;
  return about;
}

void prepare_change(Run& run) {
  ET_CHECK(run.change.stage != Stage::kCommitted && run.change.stage != Stage::kHalting,
           "a plan is sent when no swap and no halt is in progress");
  ET_CHECK(!run.recovery.wanted && !run.end.wanted, "what handlers have found is acted on before a new plan");
  run.change.generation = ++run.training.issued;
  protocol::GenerationPlan plan = next_plan(run);
  run.desired.update_reason.clear();
  run.out.journal(record_of(run, plan));
  const std::vector<WorkerId> to = addressees(run);
  run.change.stage = Stage::kPreparing;
  run.change.waiting = {to.begin(), to.end()};
  run.change.failed.clear();
  run.change.any_active = false;
  run.change.prepared_at = run.out.now();
  run.change.timer = run.out.arm({TimerKind::kPrepare, {}, {}}, run.out.now() + run.settings.prepare_timeout);
  run.change.plan = plan;
  run.out.send(to, protocol::Prepare{std::move(plan)});
}

void prepare_stop(Run& run) {
  run.change.members.clear();
  run.change.leavers = run.training.members;
  run.change.kind = protocol::ChangeKind::kStop;
  run.change.reason = run.end.reason;
  prepare_change(run);
}

// Those that a shrink lets go, not those that have failed or whose slots go away.
static void keep_leavers(Run& run) {
  for (WorkerId id : run.change.leavers) {
    Worker* leaver = run.roster.worker(id);
    if (leaver == nullptr) continue;
    const Agent& home = *run.roster.agent(leaver->agent);
    leaver->may_be_warm = run.settings.keeps_warm && run.change.kind == protocol::ChangeKind::kShrink &&
                          home.usable() && home.may_use(leaver->slot) && !leaver->dying();
    if (leaver->may_be_warm) run.out.emit(KeepWarm{home.id, id});
  }
}

void commit_change(Run& run) {
  ET_CHECK(run.change.stage == Stage::kPreparing && run.change.waiting.empty(),
           "a change is committed when every worker is prepared");
  ET_CHECK(run.change.generation > run.training.generation, "generations only rise");
  run.out.cancel(run.change.timer);
  run.training.build_time = std::chrono::duration_cast<Millis>(run.out.now() - run.change.prepared_at);
  const std::vector<WorkerId> to = addressees(run);
  run.out.journal(record::Commit{run.change.generation, run.change.members.size(), run.change.reason}, true);
  keep_leavers(run);
  run.out.send(to, protocol::Commit{run.change.generation});
  if (run.recovery.active()) fence_accounts(run, {run.change.generation, run.recovery.resume_step + 1});
  begin_probation(run);
  for (WorkerId id : run.change.members) run.roster.worker(id)->take_assignment();
  run.change.stage = Stage::kCommitted;
  run.change.waiting = {to.begin(), to.end()};
  if (run.recovery.active() || run.training.generation == 0)
    run.hangs.assignment(run.change.generation, run.roster.unfinished(run.change.members));
  for (WorkerId id : run.change.members) run.hangs.watch(id);
  run.out.look_again();
}

void cancel_change(Run& run, const std::string& why) {
  if (run.change.stage == Stage::kPreparing) {
    run.out.journal(record::Cancel{run.change.generation, why});
    run.out.send(addressees(run), protocol::Cancel{run.change.generation});
  }
  run.out.cancel(run.change.timer);
  run.change.stage = Stage::kGathering;
  run.change.waiting.clear();
  run.change.late = false;
  run.change.failure.clear();
  run.change.unwanted.clear();
  run.out.look_again();
}

static void give_up_change(Run& run, const std::string& why) {
  const std::string text =
      "the change to " + counted(run.change.members.size(), "worker") + " is given up (" + why + ")";
  run.out.journal(record::GivenUp{why});
  if (run.end.begun() || run.training.generation == 0) {
    run.out.tell(Tell::Level::kError, text);
    want_end(run, EndMode::kNow, run.training.generation == 0 ? 69 : run.end.status,
             run.end.reason.empty() ? why : run.end.reason);
    return;
  }
  run.out.tell(Tell::Level::kError, text + "; the run stays at " + counted(run.training.members.size(), "worker"));
  run.desired.hold = true;
  // The next lease is another attempt.
  if (!run.settings.leased) run.desired.target = static_cast<std::uint32_t>(run.training.members.size());
  run.desired.target_reason = "the last change was given up";
  run.desired.replacements.clear();
}

static void prepare_failed(Run& run, const std::string& why) {
  cancel_change(run, why);
  if (++run.change.attempts <= kSwapRetries) {
    const Millis delay = kFirstSwapRetryDelay * (1 << (run.change.attempts - 1));
    run.out.tell(Tell::Level::kWarning, why + "; trying again in " + protocol::duration_text(delay));
    run.change.retrying = true;
    run.change.timer = run.out.arm({TimerKind::kRetry, {}, {}}, run.out.now() + delay);
    return;
  }
  run.change.attempts = 0;
  // Another round is not worth it for a worker that cannot build although every worker it needs still runs.
  const std::string what = "could not build the communicator: " + why;
  if (run.recovery.active()) return leave_out(run, run.change.failed, what, FailureClass::kInfrastructure);
  std::vector<WorkerId> guilty_joiners;
  for (WorkerId id : run.change.failed) {
    if (!run.training.is_member(id) && run.roster.worker(id) != nullptr) guilty_joiners.push_back(id);
  }
  for (WorkerId id : guilty_joiners) expel_joiner(run, id, what);
  if (guilty_joiners.empty()) give_up_change(run, why);
}

// Joiners that did not answer are left out; if only members did not answer, no worker can be left out.
static void leave_out_late(Run& run) {
  if (run.recovery.active()) return recovery_prepare_timed_out(run);
  std::vector<WorkerId> late_joiners;
  std::string late_members;
  for (WorkerId id : addressees(run)) {
    if (!run.change.waiting.contains(id)) continue;
    if (!run.training.is_member(id)) {
      late_joiners.push_back(id);
    } else {
      late_members += (late_members.empty() ? "" : ", ") + name_of(run, *run.roster.worker(id));
    }
  }
  for (WorkerId id : late_joiners) expel_joiner(run, id, "did not build its communicator in time");
  if (late_joiners.empty()) run.change.failure = "no answer in time from " + late_members;
}

void conclude_attempt(Run& run) {
  if (std::exchange(run.change.late, false)) leave_out_late(run);
  if (!run.change.failure.empty()) prepare_failed(run, std::exchange(run.change.failure, {}));
  if (!run.change.unwanted.empty()) cancel_change(run, std::exchange(run.change.unwanted, {}));
}

void prepare_timed_out(Run& run) {
  run.change.timer = 0;
  run.change.late = true;
  run.out.look_again();
}

void on_message(Run& run, Worker& worker, const protocol::WorkerPrepared& message) {
  if (run.change.stage != Stage::kPreparing || message.generation != run.change.generation) return;
  if (run.change.waiting.erase(worker.id) == 0) return;
  run.out.journal(record::Prepared{worker.id, message.generation});
  if (run.change.waiting.empty()) commit_change(run);
}

void on_message(Run& run, Worker& worker, const protocol::WorkerPrepareFailed& message) {
  if (run.change.stage != Stage::kPreparing || message.generation != run.change.generation) return;
  run.change.failed.insert(worker.id);
  run.change.failure = name_of(run, worker) + " could not build the communicator of generation " +
                       std::to_string(message.generation) + ": " + message.reason;
  run.out.look_again();
}

void retry_change(Run& run) {
  run.change.timer = 0;
  run.change.retrying = false;
  run.out.look_again();
}

// It is in a generation, but not according to the previous supervisor, which must have given it up: the order to end it
// was lost.
void end_stray(Run& run, Worker& worker) {
  if (run.change.stage == Stage::kPreparing) run.change.unwanted = name_of(run, worker) + " was given up before";
  worker.order_end(EndOrder::kKill);
  end_for_good(run, worker);
  run.out.look_again();
}

void on_message(Run& run, Worker& worker, const protocol::WorkerActive& message) {
  if (message.generation > run.training.issued) return;
  run.probation.active(worker.id, message.first_step);
  const bool of_change = run.change.stage == Stage::kCommitted && message.generation == run.change.generation;
  const bool first = run.training.remember(message.generation, message.first_step);
  // What generations before this one used from here on is void, also that of one whose record was lost before this run
  // started anew; a planned change from one to the next leaves nothing void.
  if (first && (run.training.restarting || run.training.generation == 0 || !of_change)) {
    fence_accounts(run, {message.generation, message.first_step});
  }
  const bool awaited = of_change && run.change.waiting.erase(worker.id) > 0;
  if (!worker.assigned() && !worker.finished() && !worker.dying()) end_stray(run, worker);
  if (!first && !awaited) return;
  run.out.journal(record::Active{worker.id, message.generation, message.first_step, message.state_transfer_bytes});
  if (!awaited) return;
  run.change.any_active = true;
  run.change.first_step = message.first_step;
  if (run.change.waiting.empty()) run.out.look_again();
}

void on_message(Run& run, Worker& worker, const protocol::WorkerLeft& message) {
  const bool in_time = run.change.stage == Stage::kCommitted && message.generation == run.change.generation;
  // Part of a change that a fence has ended since, or that a previous supervisor committed: the worker is gone in any
  // case.
  const bool ended = run.recovery.active() ? message.generation <= run.training.fence
                                           : run.takeover.unsettled && message.generation <= run.training.issued;
  const bool late = worker.trains() && ended;
  if (in_time ? run.change.waiting.erase(worker.id) == 0 : !late) return;
  worker.assignment = Assignment::kLeft;
  run.end.left_in_order = run.end.left_in_order || run.end.mode == EndMode::kDraining;
  run.out.journal(record::Left{worker.id, message.generation, message.last_step});
  expect_exit(run, worker);
  if (late && !in_time) {
    run.recovery.waiting.erase(worker.id);
    if (run.recovery.active()) want_recovery(run, "");
    return;
  }
  run.change.any_active = true;
  if (run.change.waiting.empty()) run.out.look_again();
}

void on_message(Run& run, Worker& worker, const protocol::WorkerFinished& message) {
  if (worker.finished() || worker.left() || (!run.training.is_member(worker.id) && !run.change.in_flight(worker.id)))
    return;
  if (message.alone && ended_alone(run, worker)) return;
  worker.assignment = Assignment::kFinished;
  run.end.finished.insert(worker.id);
  run.hangs.forget(worker.id);
  run.out.journal(record::Finished{worker.id, message.last_step});
  run.change.waiting.erase(worker.id);
  run.recovery.waiting.erase(worker.id);
  member_finished(run);
  if (run.recovery.active() && run.change.stage != Stage::kCommitted) want_recovery(run, "");
}

static void begin_generation(Run& run) {
  for (const protocol::Member& member : run.change.plan.members) {
    if (Worker* worker = run.roster.worker(member.worker)) worker->share = member.share;
  }
  run.training.remember(run.training.generation, run.change.first_step);
  if (!std::exchange(run.training.restarting, false)) return;
  count_progress_from(run, run.training.generation, run.change.first_step);
  run.out.cancel(run.startup.min_timer);
}

void complete_change(Run& run) {
  ET_CHECK(run.change.stage == Stage::kCommitted && run.change.waiting.empty(),
           "a change is complete when every worker has passed its boundary");
  const std::size_t size_before = run.training.members.size();
  const bool recovered = run.recovery.active();
  if (recovered) {
    run.change.first_step = run.recovery.resume_step + 1;
    run.desired.hold = false;
    end_recovery(run);
  }
  run.training.set_members(run.change.members);
  run.training.generation = run.change.generation;
  run.hangs.assignment(run.training.generation, run.roster.unfinished(run.training.members));
  trust_hosts(run);
  if (run.training.members.size() >= run.training.size_before_loss || !recovered) run.training.size_before_loss = 0;
  if (!run.training.members.empty()) begin_generation(run);
  run.training.learning_rate_factor = run.change.plan.learning_rate_factor;
  run.training.synchronization = run.change.plan.synchronization;
  run.training.topology = run.change.plan.topology;
  run.training.parents = run.change.plan.parents;
  if (run.training.synchronization != run.settings.synchronization && !run.training.members.empty() &&
      run.desired.update_reason.empty()) {
    run.desired.update_reason =
        "train by " + std::string(protocol::name_of(run.settings.synchronization)) + ", as requested before";
    run.out.look_again();
  }
  run.training.size_reason =
      run.training.members.size() == size_before && !recovered && !run.training.size_reason.empty()
          ? run.training.size_reason
          : run.change.reason;
  run.training.last_change = "generation " + std::to_string(run.training.generation) + ": " + run.change.reason;
  for (WorkerId id : run.training.members) {
    if (const Worker* worker = run.roster.worker(id)) run.roster.clear_blame(worker->place());
  }
  std::erase_if(run.desired.replacements,
                [&](const auto& proposal) { return !run.training.is_member(proposal.first); });
  run.out.journal(record::GenerationComplete{run.training.generation, run.change.kind, run.change.first_step,
                                             run.training.members.size(), run.training.members});
  if (!run.training.members.empty()) run.out.tell(Tell::Level::kInfo, run.training.last_change);
  run.change = Change{};
  ET_CHECK(!run.recovery.active(), "a complete generation ends the recovery before it");
  // Joiners of a recovery that another one followed wait for a first assignment again.
  if (run.end.mode == EndMode::kFinishing || run.end.mode == EndMode::kDraining) dismiss_others(run);
  run.out.look_again();
}

}  // namespace elastictrain::core
