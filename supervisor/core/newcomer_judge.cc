#include "supervisor/core/newcomer_judge.h"

#include <algorithm>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/failure_budget.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"

namespace elastictrain::core {
namespace {

constexpr std::uint32_t kMostTries = 2;

bool contains(const std::vector<WorkerId>& ids, WorkerId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

NewcomerJudge::NewcomerJudge(const RunSettings& settings, Roster& roster, Outbox& out, Training& training,
                             Change& change, Recovery& recovery, DesiredState& desired, RunEnd& end,
                             WorkerControl& workers, Halt& halt, Ending& ending)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      end_(end),
      workers_(workers),
      halt_(halt),
      ending_(ending) {}

void NewcomerJudge::begin() {
  if (training_.generation == 0) return;
  probation_.keep_known(roster_);
  std::uint64_t epoch = 0;
  for (WorkerId id : training_.members) {
    if (const Worker* member = roster_.worker(id)) epoch = std::max(epoch, member->heartbeat.epoch);
  }
  for (WorkerId id : change_.members) {
    if (!roster_.worker(id)->seated()) probation_.begin(id, change_.generation, epoch);
  }
}

void NewcomerJudge::take(WorkerId id, const protocol::WorkerHeartbeat& heartbeat) {
  if (probation_.take(id, heartbeat)) desired_.failed_joins = 0;
  Worker* worker = roster_.worker(id);
  if (!settings_.keeps_first || worker == nullptr || !worker->is_first || worker->may_lead || !worker->trains()) return;
  worker->may_lead = !probation_.is_in_first_steps(id);
  if (worker->may_lead) out_.look_again();
}

// It ends by itself; how it ends tells nothing more.
void NewcomerJudge::on_message(Worker& worker, const protocol::WorkerDeclines& message) {
  if (worker.seated() || worker.dying()) return;
  const std::string why = "cannot join: " + message.reason;
  workers_.expect_exit(worker);
  workers_.drop_joiner(worker, why, Retry::kOnce);
  count_before_training(message.reason);
}

void NewcomerJudge::on_disagreement(Worker& worker, const protocol::WorkerHalted& message) {
  if (!worker.trains() || end_.mode == EndMode::kNow) return;
  out_.journal(record::Disagreement{worker.id, message.generation, message.reason});
  if (send_away(message.generation, workers_.name_of(worker) + ": " + message.reason)) return;
  // After a loss the step is repeated without the lost worker, which may be what it disagreed with.
  if (message.generation <= training_.fence && !recovery_.reasons.empty()) return;
  out_.send({worker.id}, protocol::Disagreed{message.generation, message.reason});
}

bool NewcomerJudge::send_away(Generation generation, const std::string& why) {
  const std::vector<WorkerId> suspects = probation_.suspects(roster_, generation);
  const std::vector<WorkerId> others = others_than(suspects);
  if (suspects.empty() || others.empty()) return false;
  std::string names;
  for (WorkerId id : suspects) {
    Worker& worker = *roster_.worker(id);
    names += (names.empty() ? "" : ", ") + workers_.name_of(worker);
    out_.journal(record::NewcomerSentAway{id, why});
    probation_.forget(id);
    recovery_.waiting.erase(id);
    workers_.note_failed(worker, why);
    workers_.stop(worker);
  }
  out_.tell(Tell::Level::kWarning,
            "the ranks disagree, so the newest goes, " + names + "; the others repeat the step. " + why);
  count_try(why, others.size());
  recovery_.of_newcomers = true;
  halt_.recover("the ranks disagree since " + names + " joined");
  return true;
}

bool NewcomerJudge::ended_alone(Worker& worker) {
  if (!probation_.is_on(worker.id) || end_.begun() || others_than({worker.id}).empty()) return false;
  const WorkerId id = worker.id;
  const std::string text = workers_.name_of(worker) + " ended its training before the others";
  recovery_.waiting.erase(id);
  workers_.expect_exit(worker);
  return could_not_join(id, text);
}

bool NewcomerJudge::exited(WorkerId id, bool by_itself, bool good, const std::string& text) {
  const bool counts =
      probation_.has_no_step(id) || (by_itself && probation_.is_in_first_steps(id)) || (good && probation_.is_on(id));
  return counts && could_not_join(id, text);
}

bool NewcomerJudge::hung(WorkerId id, const std::string& text) {
  return probation_.has_no_step(id) && could_not_join(id, text);
}

void NewcomerJudge::ended_before_joining(const std::string& text) {
  if (!end_.begun()) count_before_training(text);
}

bool NewcomerJudge::could_not_join(WorkerId id, const std::string& text) {
  const std::size_t left = others_than({id}).size();
  if (left == 0 || end_.begun()) return false;
  out_.journal(record::NewcomerSentAway{id, text});
  if (const Worker* worker = roster_.worker(id)) workers_.note_failed(*worker, text);
  out_.tell(Tell::Level::kWarning, text + ": it could not join, and the others go on");
  probation_.forget(id);
  count_try(text, left);
  recovery_.of_newcomers = true;
  halt_.recover(text);
  return true;
}

void NewcomerJudge::count_before_training(const std::string& why) {
  if (training_.generation != 0) return count_try(why, training_.members.size());
  if (!training_.restarting || ++desired_.failed_joins < kMostTries) return;
  ending_.fail_run(kStatusFruitless, "the run cannot go on: " + why +
                                         ". Workers that are to go on from its state end before they "
                                         "train, so starting it again as it is will not help");
}

void NewcomerJudge::count_try(const std::string& why, std::size_t size) {
  if (++desired_.failed_joins < kMostTries) return;
  desired_.failed_joins = 0;
  const auto stays = std::max(static_cast<std::uint32_t>(size), settings_.min_workers);
  desired_.refuse_growth(stays, why, out_);
  for (const auto& [id, kind] : desired_.replacements) out_.journal(record::ReplaceGivenUp{id});
  desired_.replacements.clear();
  out_.look_again();
}

// Who would go on.
std::vector<WorkerId> NewcomerJudge::others_than(const std::vector<WorkerId>& leaving) const {
  std::vector<WorkerId> others;
  for (const auto& [id, worker] : roster_.workers()) {
    if (worker.trains() && !contains(leaving, id)) others.push_back(id);
  }
  return others;
}

}  // namespace elastictrain::core
