#include "supervisor/core/starting.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/ending.h"
#include "supervisor/core/hosts.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/reconciling.h"
#include "supervisor/core/recovering.h"
#include "supervisor/core/workers.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::core {
namespace {

std::string text(bool value) {
  return value ? "true" : "false";
}
std::string text(std::uint64_t value) {
  return std::to_string(value);
}

// Workers that divide their data in another way would skip samples and repeat others, or end at another step.
std::optional<std::string> division_mismatch(const protocol::WorkerReady& joiner, const protocol::WorkerReady& others) {
  const auto differs = [](const char* option, auto mine, auto theirs) {
    return "has the data option " + std::string(option) + " = " + text(mine) + ", the rest of the run " + text(theirs) +
           ": every worker must divide the data in the same way";
  };
  if (joiner.epochs != others.epochs) return differs("epochs", joiner.epochs, others.epochs);
  if (joiner.max_steps != others.max_steps) return differs("max_steps", joiner.max_steps, others.max_steps);
  if (joiner.batch_of_all != others.batch_of_all)
    return differs("batch_of_all", joiner.batch_of_all, others.batch_of_all);
  const protocol::DataDivision& mine = joiner.division;
  const protocol::DataDivision& theirs = others.division;
  if (!mine.is_known || !theirs.is_known) return std::nullopt;
  if (mine.seed != theirs.seed) return differs("seed", mine.seed, theirs.seed);
  if (mine.shuffle != theirs.shuffle) return differs("shuffle", mine.shuffle, theirs.shuffle);
  if (mine.drop_last != theirs.drop_last) return differs("drop_last", mine.drop_last, theirs.drop_last);
  if (mine.min_local_samples != theirs.min_local_samples)
    return differs("min_local_samples", std::uint64_t{mine.min_local_samples}, std::uint64_t{theirs.min_local_samples});
  if (mine.batches_per_step == theirs.batches_per_step) return std::nullopt;
  return differs("batches_per_step", std::uint64_t{mine.batches_per_step}, std::uint64_t{theirs.batches_per_step});
}

}  // namespace

void on_message(Run& run, Worker& worker, const protocol::WorkerHello& message) {
  if (worker.greeted() || worker.dying()) return;
  worker.contact = Contact::kHello;
  run.out.journal(record::Hello{worker.id, message.pid, message.library_version});
  if (message.protocol_version != limits::kProtocolVersion) {
    expel_joiner(run, worker.id,
                 "speaks protocol " + std::to_string(message.protocol_version) + " (library " +
                     message.library_version + "), not " + std::to_string(limits::kProtocolVersion) +
                     ": build the program against this version's library");
    return;
  }
  if (run.startup.elastic) return;
  run.startup.elastic = true;
  run.out.look_again();
  for (auto& [id, other] : run.roster.workers()) {
    if (!other.ready() && !other.assigned() && !other.dying()) expect_ready(run, other);
  }
}

static std::uint32_t batch_of(const Run& run, const protocol::WorkerReady& message) {
  if (run.settings.batch_of_program) return message.batch;
  const std::uint64_t batches = message.division.batches_per_step;
  if (batches <= 1) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(run.settings.batch_of_user * batches, limits::kMaxBatch));
}

// The first worker speaks for the program. A run that trains keeps the batch that it has.
static void take_reference(Run& run, const protocol::WorkerReady& message) {
  run.reference = message;
  run.ledger.set_sample_count(message.sample_count);
  const std::uint32_t batch = batch_of(run, message);
  if (batch == 0 || run.training.generation != 0 || run.desired.update.program_batch == batch) return;
  UpdatePlan of_program{.per_worker = run.desired.update.per_worker, .program_batch = batch};
  if (message.batch_of_all && run.settings.batch_of_program) of_program.program_max_global = batch;
  apply_update(run, of_program);
  record::PlanUpdated updated;
  write_update(run.desired.update, updated);
  run.out.journal(std::move(updated));
  run.out.look_again();
}

static std::optional<std::string> batch_mismatch(const Run& run, const protocol::WorkerReady& message) {
  const auto known = run.desired.update.program_batch;
  const bool is_first = !run.reference && run.training.generation == 0;
  const bool asks = run.settings.batch_of_program && message.batch != 0;
  if (!asks || !known || message.batch == *known || is_first) return std::nullopt;
  return "asks for a batch of " + counted(message.batch, "sample") + ", the rest of the run for " +
         std::to_string(*known) + ": every worker must ask for the same, or start the run with --batch";
}

static std::optional<std::string> mismatch(const Run& run, const protocol::WorkerReady& message) {
  if (const auto why = batch_mismatch(run, message)) return why;
  if (!run.reference) return std::nullopt;
  if (message.state_layout_hash != run.reference->state_layout_hash ||
      message.state_bytes != run.reference->state_bytes) {
    return "shares different state than the rest of the run (" + std::to_string(message.state_bytes) +
           " bytes instead of " + std::to_string(run.reference->state_bytes) +
           "): " + first_difference(message.state_items, run.reference->state_items) +
           ". Every worker must run the same program";
  }
  if (message.sample_count != run.reference->sample_count) {
    return "has " + counted(message.sample_count, "sample") + " for each epoch, the rest of the run " +
           std::to_string(run.reference->sample_count) + ": every worker must see the same data";
  }
  return division_mismatch(message, *run.reference);
}

void on_message(Run& run, Worker& worker, const protocol::WorkerReady& message) {
  if (worker.ready() || worker.dying() || !worker.greeted()) return;
  if (const auto why = mismatch(run, message)) {
    expel_joiner(run, worker.id, *why);
    return;
  }
  if (!run.reference) take_reference(run, message);
  worker.contact = Contact::kReady;
  worker.facts = message;
  worker.facts.state_items.clear();  // only those of the reference are needed
  if (worker.started_at != Instant{} && !worker.was_warm) {
    run.startup.newest_start = std::chrono::duration_cast<Millis>(run.out.now() - worker.started_at);
  }
  run.out.cancel(worker.timer);
  run.out.journal(record::Ready{worker.id, message.state_bytes});
  const bool counted = run.change.stage == Stage::kGathering && run.change.plans(worker.id);
  // With thousands of joiners only the last one is worth a look at the whole plan.
  if (!counted || --run.change.not_ready == 0) run.out.look_again();
}

// A member that has just joined does not know it yet.
void on_message(Run& run, Worker& worker, const protocol::WorkerAsksEpoch& /*message*/) {
  const auto& members = run.training.members;
  const auto known = std::find_if(members.begin(), members.end(), [&](WorkerId id) {
    const Worker* member = run.roster.worker(id);
    return member != nullptr && member->heartbeat.generation != 0;
  });
  const std::uint64_t epoch = known == members.end() ? 0 : run.roster.worker(*known)->heartbeat.epoch;
  run.out.send({worker.id}, protocol::RunEpoch{epoch});
}

void on(Run& run, const WorkerSpawnFailed& event) {
  const Worker* found = run.roster.worker(event.worker);
  if (found == nullptr) return;
  const Worker worker = *found;
  run.out.journal(record::SpawnFailed{worker.id, event.reason});
  remove_worker(run, worker.id);
  const bool is_program = event.program_status != 0;
  if (is_program) run.startup.program_status = event.program_status;
  if (worker.dying()) return;
  drop_joiner(run, worker, "could not be started: " + event.reason, is_program ? Retry::kNever : Retry::kOnce);
}

bool restart_plain(Run& run, const std::string& why) {
  ET_CHECK(run.startup.is_plain() && !run.startup.clearing, "only a running plain program is started again");
  if (run.startup.plain_restarts >= run.settings.failures.plain_restarts) return false;
  ++run.startup.plain_restarts;
  run.startup.clearing = true;
  run.out.journal(record::PlainRestart{run.startup.plain_restarts, run.settings.failures.plain_restarts, why});
  run.out.tell(Tell::Level::kWarning, why + "; all processes are started again (restart " +
                                          std::to_string(run.startup.plain_restarts) + " of " +
                                          std::to_string(run.settings.failures.plain_restarts) + ")");
  run.out.cancel(run.change.timer);
  run.change = Change{};
  for (auto& [id, worker] : run.roster.workers()) stop_worker(run, worker);
  run.out.look_again();
  return true;
}

bool clears_plain(Run& run) {
  if (!run.startup.clearing) return false;
  if (!run.roster.workers().empty()) return true;
  run.startup.clearing = false;
  run.startup.spawned = run.startup.last_call = false;
  run.startup.plain_finished = 0;
  return false;
}

// A program of fixed size takes no host later, so all get a chance to come.
static bool calls_last(Run& run, std::uint32_t slots) {
  if (run.settings.last_call == Millis{0}) return false;
  const bool enough = slots >= run.settings.min_workers;
  if (std::exchange(run.startup.last_call, enough) != enough) {
    run.out.cancel(run.startup.timer);
    run.startup.expired = false;
    const Millis limit = enough ? run.settings.last_call : run.settings.start_timeout;
    run.startup.timer = run.out.arm({TimerKind::kStart, {}, {}}, run.out.now() + limit);
    if (enough) {
      run.out.tell(Tell::Level::kInfo, "the hosts have slots for " + std::to_string(slots) + " of " +
                                           counted(target_size(run), "worker") + ": the run waits up to " +
                                           protocol::duration_text(limit) +
                                           " for more (timeouts.start_ms), because a program of fixed size cannot take "
                                           "them later");
    }
  }
  return enough && !run.startup.expired;
}

bool may_start(Run& run) {
  if (run.training.generation != 0 || run.startup.spawned) return true;
  if (!run.startup.hosts_known) return false;
  const std::uint32_t slots = run.roster.usable_slots();
  if (slots >= target_size(run)) return true;
  if (calls_last(run, slots)) return false;
  const bool more_may_come =
      !run.startup.expired && (run.roster.any_launching() || run.roster.any_awaited() || run.settings.hosts_may_appear);
  const bool worth_waiting = !run.startup.expired && (run.roster.any_launching() || slots < run.settings.min_workers);
  if (more_may_come && worth_waiting) return false;
  if (slots >= run.settings.min_workers) return true;
  const std::string hosts = unreachable_hosts(run);
  fail_run(run, 69,
           "the hosts offer " + counted(slots, "slot") + ", but at least " +
               counted(run.settings.min_workers, "worker") + " must start" + (hosts.empty() ? "" : " (" + hosts + ")") +
               ". Add hosts or slots, or lower workers.min.");
  return false;
}

bool waits_for_lease(const Run& run) {
  const bool none = run.desired.lease.slots < run.settings.min_workers || run.desired.lease.hold;
  return run.settings.leased && none && run.roster.workers().empty();
}

// The first cause comes first. How many others would have started is not known.
std::string why_too_few(const Run& run, std::size_t count) {
  const std::string hosts = unreachable_hosts(run);
  const std::string& workers = run.start_failures.newest;
  const std::string least = "t least " + counted(run.settings.min_workers, "worker") + " must start";
  if (!workers.empty()) return workers + (hosts.empty() ? "" : "; " + hosts) + ". A" + least;
  return "only " + counted(count, "worker") + " can start, but a" + least + ": " +
         (hosts.empty() ? "the hosts have no other slot" : hosts);
}

bool waits_for_hosts(Run& run) {
  if (run.startup.expired || !asks_hosts(run)) return false;
  if (run.startup.timer == 0) {
    run.startup.timer = run.out.arm({TimerKind::kStart, {}, {}}, run.out.now() + run.settings.start_timeout);
  }
  return true;
}

bool asks_hosts(const Run& run) {
  const auto agents = run.roster.agents_in_order();
  return std::any_of(agents.begin(), agents.end(), [](const Agent* agent) {
    const bool is_asked = agent->link == Link::kLaunching || (agent->link == Link::kDown && agent->timer != 0);
    return is_asked && agent->offered && !agent->drain && !agent->stopping;
  });
}

namespace {

constexpr std::uint32_t kMostTries = 2;  // in a row, after which the run stays at its size

bool contains(const std::vector<WorkerId>& ids, WorkerId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

void begin_probation(Run& run) {
  if (run.training.generation == 0) return;
  run.probation.keep_known(run.roster);
  std::uint64_t epoch = 0;
  for (WorkerId id : run.training.members) {
    if (const Worker* member = run.roster.worker(id)) epoch = std::max(epoch, member->heartbeat.epoch);
  }
  for (WorkerId id : run.change.members) {
    if (!run.roster.worker(id)->assigned()) run.probation.begin(id, run.change.generation, epoch);
  }
}

void note_heartbeat(Run& run, WorkerId id, const protocol::WorkerHeartbeat& heartbeat) {
  if (run.probation.take(id, heartbeat)) run.desired.failed_joins = 0;
  Worker* worker = run.roster.worker(id);
  if (!run.settings.keeps_first || worker == nullptr || !worker->is_first || worker->may_lead || !worker->trains())
    return;
  worker->may_lead = !run.probation.is_in_first_steps(id);
  if (worker->may_lead) run.out.look_again();
}

static void count_try(Run& run, const std::string& why, std::size_t size) {
  if (++run.desired.failed_joins < kMostTries) return;
  run.desired.failed_joins = 0;
  const auto stays = std::max(static_cast<std::uint32_t>(size), run.settings.min_workers);
  refuse_growth(run, stays, why);
  for (const auto& [id, kind] : run.desired.replacements) run.out.journal(record::ReplaceGivenUp{id});
  run.desired.replacements.clear();
  run.out.look_again();
}

static void count_before_training(Run& run, const std::string& why) {
  if (run.training.generation != 0) return count_try(run, why, run.training.members.size());
  if (!run.training.restarting || ++run.desired.failed_joins < kMostTries) return;
  fail_run(run, kStatusFruitless,
           "the run cannot go on: " + why +
               ". Workers that are to go on from its state end before they "
               "train, so starting it again as it is will not help");
}

// It ends by itself; how it ends tells nothing more.
void on_message(Run& run, Worker& worker, const protocol::WorkerDeclines& message) {
  if (worker.assigned() || worker.dying()) return;
  const std::string why = "cannot join: " + message.reason;
  // Its program may wait for its first assignment, or have declined by itself before that.
  if (worker.ready()) dismiss(run, worker, why);
  expect_exit(run, worker);
  drop_joiner(run, worker, why, Retry::kOnce);
  count_before_training(run, message.reason);
}

// Who would go on.
static std::vector<WorkerId> others_than(const Run& run, const std::vector<WorkerId>& leaving) {
  std::vector<WorkerId> others;
  for (const auto& [id, worker] : run.roster.workers()) {
    if (worker.trains() && !contains(leaving, id)) others.push_back(id);
  }
  return others;
}

static bool send_away(Run& run, Generation generation, const std::string& why) {
  const std::vector<WorkerId> suspects = run.probation.suspects(run.roster, generation);
  const std::vector<WorkerId> others = others_than(run, suspects);
  if (suspects.empty() || others.empty()) return false;
  std::string names;
  for (WorkerId id : suspects) {
    Worker& worker = *run.roster.worker(id);
    names += (names.empty() ? "" : ", ") + name_of(run, worker);
    run.out.journal(record::NewcomerSentAway{id, why});
    run.probation.forget(id);
    run.recovery.waiting.erase(id);
    note_failed_start(run, worker, why);
    stop_worker(run, worker);
  }
  run.out.tell(Tell::Level::kWarning,
               "the ranks disagree, so the newest goes, " + names + "; the others repeat the step. " + why);
  count_try(run, why, others.size());
  run.recovery.of_newcomers = true;
  want_recovery(run, "the ranks disagree since " + names + " joined");
  return true;
}

void on_disagreement(Run& run, Worker& worker, const protocol::WorkerHalted& message) {
  if (!worker.trains() || run.end.mode == EndMode::kNow) return;
  run.out.journal(record::Disagreement{worker.id, message.generation, message.reason});
  if (send_away(run, message.generation, name_of(run, worker) + ": " + message.reason)) return;
  // After a loss the step is repeated without the lost worker, which may be what it disagreed with.
  if (message.generation <= run.training.fence && !run.recovery.reasons.empty()) return;
  run.out.send({worker.id}, protocol::Disagreed{message.generation, message.reason});
}

static bool could_not_join(Run& run, WorkerId id, const std::string& text) {
  const std::size_t left = others_than(run, {id}).size();
  if (left == 0 || run.end.begun()) return false;
  run.out.journal(record::NewcomerSentAway{id, text});
  if (const Worker* worker = run.roster.worker(id)) note_failed_start(run, *worker, text);
  run.out.tell(Tell::Level::kWarning, text + ": it could not join, and the others go on");
  run.probation.forget(id);
  count_try(run, text, left);
  run.recovery.of_newcomers = true;
  want_recovery(run, text);
  return true;
}

bool ended_alone(Run& run, Worker& worker) {
  if (!run.probation.is_on(worker.id) || run.end.begun() || others_than(run, {worker.id}).empty()) return false;
  const WorkerId id = worker.id;
  const std::string text = name_of(run, worker) + " ended its training before the others";
  run.recovery.waiting.erase(id);
  expect_exit(run, worker);
  return could_not_join(run, id, text);
}

bool newcomer_exited(Run& run, WorkerId id, bool by_itself, bool good, const std::string& text) {
  const bool counts = run.probation.has_no_step(id) || (by_itself && run.probation.is_in_first_steps(id)) ||
                      (good && run.probation.is_on(id));
  return counts && could_not_join(run, id, text);
}

bool newcomer_hung(Run& run, WorkerId id, const std::string& text) {
  return run.probation.has_no_step(id) && could_not_join(run, id, text);
}

void ended_before_joining(Run& run, const std::string& text) {
  if (!run.end.begun()) count_before_training(run, text);
}

}  // namespace elastictrain::core
