#include "supervisor/core/newcomers.h"

#include <algorithm>
#include <string>
#include <vector>

#include "supervisor/core/ending.h"
#include "supervisor/core/recovering.h"
#include "supervisor/core/workers.h"

namespace elastictrain::core {
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
    if (!run.roster.worker(id)->seated()) run.probation.begin(id, run.change.generation, epoch);
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
  if (worker.seated() || worker.dying()) return;
  const std::string why = "cannot join: " + message.reason;
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
