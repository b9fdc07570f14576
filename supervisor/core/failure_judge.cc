#include "supervisor/core/failure_judge.h"

#include <algorithm>
#include <utility>

#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/halt.h"
#include "supervisor/core/host_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"

namespace elastictrain::core {
namespace {

constexpr std::uint32_t kMostOutOfMemory = 3;

}  // namespace

FailureJudge::FailureJudge(const RunSettings& settings, Roster& roster, Outbox& out, Training& training,
                           Recovery& recovery, DesiredState& desired, RunEnd& end, Ending& ending, Halt& halt,
                           HostJudge& host_judge)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      recovery_(recovery),
      desired_(desired),
      end_(end),
      ending_(ending),
      halt_(halt),
      host_judge_(host_judge),
      budget_(settings.failures) {}

// A member of a generation has exited, or is about to be ended; the roster is already updated.
void FailureJudge::lose_member(Loss loss) {
  if (end_.mode == EndMode::kNow) return;
  forget_repaired_losses();
  losses_.push_back(loss);
  if (end_.mode == EndMode::kFinishing && roster_.nobody_trains()) {
    end_without(loss, "; the training had ended before");
    return;
  }
  charge(loss);
  if (end_.mode == EndMode::kNow) return;
  if (!end_.begun() && settings_.failures.on_failure == OnFailure::kStop) {
    ending_.fail_run(loss.status, loss.text + loss.detail);
    return;
  }
  const std::uint32_t size = settings_.leased ? std::min(desired_.target, desired_.lease.slots) : desired_.target;
  if (settings_.failures.on_failure == OnFailure::kShrink && size > settings_.min_workers) {
    desired_.target = size - 1;
    desired_.target_reason = "a worker was lost";
    out_.journal(record::Target{desired_.target, desired_.target_reason});
  }
  out_.tell(Tell::Level::kWarning, loss.text + loss.detail);
  if (loss.out_of_memory) note_out_of_memory(loss);
  host_judge_.blame(loss);
  halt_.recover(loss.text);
}

// A third worker would be killed like the two before it. With fewer workers each may have more memory. Workers that the
// kernel kills together count as one.
void FailureJudge::note_out_of_memory(const Loss& loss) {
  if (std::exchange(oom_generation_, training_.generation) == training_.generation) return;
  const std::size_t size = training_.members.size();
  if (oom_row_.size != size || out_.now() - oom_row_.last > settings_.failures.window) oom_row_ = {size, 0, {}};
  oom_row_.last = out_.now();
  if (++oom_row_.count < kMostOutOfMemory || end_.begun()) return;
  const auto& workers = roster_.workers();
  const auto left = static_cast<std::uint32_t>(
      std::count_if(workers.begin(), workers.end(), [](const auto& entry) { return entry.second.trains(); }));
  const std::string why = counted(oom_row_.count, "worker") + " in a row were killed for want of memory at a size of " +
                          std::to_string(size) + "; the last: " + loss.text;
  oom_row_ = {};
  if (left < std::max(settings_.min_workers, 1U)) {
    out_.tell(Tell::Level::kWarning, why + ". Another one is started, because at least " +
                                         counted(settings_.min_workers, "worker") +
                                         " must train: give it more memory, or lower workers.min or the batch");
    return;
  }
  desired_.refuse_growth(left, why, out_);
}

void FailureJudge::forget_repaired_losses() {
  if (!recovery_.active() && progressed_) losses_.clear();
}

// The last worker of a run that ends anyway is lost: the planned end stands. A worker that has finished has seen that
// all data was used, so nothing is lost with the rest. A program that fails at its end has failed all the same.
void FailureJudge::end_without(const Loss& loss, const char* why) {
  if (loss.by_itself) {
    ending_.fail_run(loss.status, loss.text + loss.detail);
    return;
  }
  out_.tell(Tell::Level::kWarning, loss.text + why);
  ending_.begin_end(EndMode::kNow, end_.status, end_.reason);
}

// The only place where the failure budgets are checked. A run that cannot tolerate the loss ends here.
void FailureJudge::charge(const Loss& loss) {
  const auto end = budget_.charge(loss, out_.now());
  out_.journal(record::Loss{class_name(loss.what), budget_.count(loss.what, out_.now()), loss.text});
  if (end) ending_.fail_run(end->status, end->reason);
}

// The same program with the same data would only fail again.
bool FailureJudge::is_bad_code() const {
  const bool all_by_themselves =
      !losses_.empty() && std::all_of(losses_.begin(), losses_.end(), [](const Loss& loss) { return loss.by_itself; });
  if (!all_by_themselves || !training_.members.empty()) return false;
  return losses_.size() > 1 || !settings_.has_checkpoints || !recovery_.progress;
}

void FailureJudge::note_progress(const protocol::WorkerHeartbeat& heartbeat) {
  if (heartbeat.generation >= progress_generation_ && heartbeat.step >= progress_step_) progressed_ = true;
}

// Called once for each fence.
void FailureJudge::note_recovery() {
  const bool progress = progressed_ || recovery_.resume_step >= progress_step_;
  recovery_.progress = progress;
  progressed_ = false;
  progress_generation_ = recovery_.fence + 1;
  progress_step_ = recovery_.resume_step + 1;
  if (recovery_.of_newcomers && recovery_.reasons.size() == 1) return;
  if (const auto end = budget_.recovers(progress, recovery_.resume_step, recovery_.cause()))
    ending_.fail_run(end->status, end->reason);
}

void FailureJudge::restart(Generation generation, Step first_step) {
  progress_generation_ = generation;
  progress_step_ = first_step;
}

}  // namespace elastictrain::core
