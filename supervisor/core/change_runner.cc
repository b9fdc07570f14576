#include "supervisor/core/change_runner.h"

#include <set>
#include <utility>
#include <vector>

#include "supervisor/core/audit.h"
#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/exclusion.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/newcomer_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/plan_maker.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {
namespace {

constexpr std::uint32_t kSwapRetries = 3;
constexpr Millis kFirstSwapRetryDelay{500};  // doubles with each

}  // namespace

ChangeRunner::ChangeRunner(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
                           Recovery& recovery, DesiredState& desired, RunEnd& end, HangDetector& hangs, Audit& audit,
                           PlanMaker& plans, WorkerControl& workers, Exclusion& exclusion, Ending& ending,
                           NewcomerJudge& newcomers)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      end_(end),
      hangs_(hangs),
      audit_(audit),
      plans_(plans),
      workers_(workers),
      exclusion_(exclusion),
      ending_(ending),
      newcomers_(newcomers) {}

void ChangeRunner::prepare() {
  ET_CHECK(change_.stage != Stage::kCommitted && change_.stage != Stage::kHalting,
           "a plan is sent when no swap and no halt is in progress");
  change_.generation = ++training_.issued;
  protocol::GenerationPlan plan = plans_.make();
  desired_.update_reason.clear();
  out_.journal(plans_.record_of(plan));
  const std::vector<WorkerId> to = plans_.addressees();
  change_.stage = Stage::kPreparing;
  change_.waiting = {to.begin(), to.end()};
  change_.failed.clear();
  change_.any_active = false;
  change_.timer = out_.arm({TimerKind::kPrepare, {}, {}}, out_.now() + settings_.prepare_timeout);
  change_.plan = plan;
  out_.send(to, protocol::Prepare{std::move(plan)});
}

void ChangeRunner::commit() {
  ET_CHECK(change_.stage == Stage::kPreparing && change_.waiting.empty(),
           "a change is committed when every worker is prepared");
  ET_CHECK(change_.generation > training_.generation, "generations only rise");
  out_.cancel(change_.timer);
  const std::vector<WorkerId> to = plans_.addressees();
  out_.journal(record::Commit{change_.generation, change_.members.size(), change_.reason}, true);
  keep_leavers();
  out_.send(to, protocol::Commit{change_.generation});
  if (recovery_.active()) audit_.fence({change_.generation, recovery_.resume_step + 1});
  newcomers_.begin();
  for (WorkerId id : change_.members) roster_.worker(id)->take_seat();
  change_.stage = Stage::kCommitted;
  change_.waiting = {to.begin(), to.end()};
  if (recovery_.active() || training_.generation == 0)
    hangs_.seat(change_.generation, roster_.unfinished(change_.members));
  for (WorkerId id : change_.members) hangs_.watch(id);
  out_.look_again();
}

// Those that a shrink lets go, not those that have failed or whose slots go away.
void ChangeRunner::keep_leavers() {
  for (WorkerId id : change_.leavers) {
    Worker* leaver = roster_.worker(id);
    if (leaver == nullptr) continue;
    const Agent& home = *roster_.agent(leaver->agent);
    leaver->may_be_warm = settings_.keeps_warm && change_.kind == protocol::ChangeKind::kShrink && home.usable() &&
                          home.may_use(leaver->slot) && !leaver->dying();
    if (leaver->may_be_warm) out_.emit(KeepWarm{home.id, id});
  }
}

void ChangeRunner::cancel(const std::string& why) {
  if (change_.stage == Stage::kPreparing) {
    out_.journal(record::Cancel{change_.generation, why});
    out_.send(plans_.addressees(), protocol::Cancel{change_.generation});
  }
  out_.cancel(change_.timer);
  change_.stage = Stage::kGathering;
  change_.waiting.clear();
  out_.look_again();
}

void ChangeRunner::prepare_failed(const std::string& why) {
  cancel(why);
  if (++change_.attempts <= kSwapRetries) {
    const Millis delay = kFirstSwapRetryDelay * (1 << (change_.attempts - 1));
    out_.tell(Tell::Level::kWarning, why + "; trying again in " + protocol::duration_text(delay));
    change_.retrying = true;
    change_.timer = out_.arm({TimerKind::kRetry, {}, {}}, out_.now() + delay);
    return;
  }
  change_.attempts = 0;
  // Another round is not worth it for a worker that cannot build although every worker it needs still runs.
  const std::string what = "could not build the communicator: " + why;
  if (recovery_.active()) return exclusion_.leave_out(change_.failed, what);
  std::vector<WorkerId> guilty_joiners;
  for (WorkerId id : change_.failed) {
    if (!training_.is_member(id) && roster_.worker(id) != nullptr) guilty_joiners.push_back(id);
  }
  for (WorkerId id : guilty_joiners) workers_.expel_joiner(id, what);
  if (guilty_joiners.empty()) give_up_change(why);
}

void ChangeRunner::give_up_change(const std::string& why) {
  const std::string text = "the change to " + counted(change_.members.size(), "worker") + " is given up (" + why + ")";
  out_.journal(record::GivenUp{why});
  if (end_.begun() || training_.generation == 0) {
    out_.tell(Tell::Level::kError, text);
    ending_.begin_end(EndMode::kNow, training_.generation == 0 ? 69 : end_.status,
                      end_.reason.empty() ? why : end_.reason);
    return;
  }
  out_.tell(Tell::Level::kError, text + "; the run stays at " + counted(training_.members.size(), "worker"));
  desired_.hold = true;
  // The next lease is another attempt.
  if (!settings_.leased) desired_.target = static_cast<std::uint32_t>(training_.members.size());
  desired_.target_reason = "the last change was given up";
  desired_.replacements.clear();
}

// Joiners that did not answer are left out; if only members did not answer, no worker can be left out.
void ChangeRunner::prepare_timed_out() {
  change_.timer = 0;
  if (recovery_.active()) return exclusion_.prepare_timed_out();
  std::vector<WorkerId> late_joiners;
  std::string late_members;
  for (WorkerId id : plans_.addressees()) {
    if (!change_.waiting.contains(id)) continue;
    if (!training_.is_member(id)) {
      late_joiners.push_back(id);
    } else {
      late_members += (late_members.empty() ? "" : ", ") + workers_.name_of(*roster_.worker(id));
    }
  }
  for (WorkerId id : late_joiners) workers_.expel_joiner(id, "did not build its communicator in time");
  if (late_joiners.empty()) prepare_failed("no answer in time from " + late_members);
}

void ChangeRunner::on_message(Worker& worker, const protocol::WorkerPrepared& message) {
  if (change_.stage != Stage::kPreparing || message.generation != change_.generation) return;
  if (change_.waiting.erase(worker.id) == 0) return;
  out_.journal(record::Prepared{worker.id, message.generation});
  if (change_.waiting.empty()) commit();
}

void ChangeRunner::on_message(Worker& worker, const protocol::WorkerPrepareFailed& message) {
  if (change_.stage != Stage::kPreparing || message.generation != change_.generation) return;
  change_.failed.insert(worker.id);
  prepare_failed(workers_.name_of(worker) + " could not build the communicator of generation " +
                 std::to_string(message.generation) + ": " + message.reason);
}

void ChangeRunner::retry() {
  change_.timer = 0;
  change_.retrying = false;
  out_.look_again();
}

}  // namespace elastictrain::core
