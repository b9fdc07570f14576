// The part of the state machine for losses that a recovery cannot repair: no worker is left that holds the state, or
// recoveries follow one another without a step between them. Also what later starts need: the first step of each
// generation.
#include <algorithm>

#include "supervisor/core/membership_impl.h"
#include "supervisor/core/words.h"

namespace elastictrain::core {
namespace {

// A plan carries the newest ones: a checkpoint older than all of these has been deleted long since.
constexpr std::size_t kMostLineage = 256;

}  // namespace

// The remaining members have no complete state: it must come from a checkpoint or be created again.
void Membership::Impl::lose_state() {
  const bool trained = generation_ != 0;
  Loss first;
  first.text = recovery_cause();
  if (!losses_.empty()) first = losses_.front();
  if (end_.mode == EndMode::kFinishing) {
    end_without(first, "; the training had ended before");
    return;
  }
  journal(record::StateLost{recovery_.fence, generation_, settings_.has_checkpoints, recovery_cause()}, true);
  if (end_.mode != EndMode::kNone) {
    // The requested orderly end is not possible any more; a status that reports worse is kept.
    if (end_.status == 0) return fail_run(first.status, first.text + first.detail);
    end_without(losses_.empty() ? first : losses_.back(), "; the run was ending");
    return;
  }
  if (is_bad_code()) {
    const std::string all = losses_.size() > 1 ? "\nEvery worker exited by itself: the program fails everywhere." : "";
    fail_run(first.status, first.text + first.detail + all);
    return;
  }
  end_recovery();
  set_members({});
  change_ = Change{};
  generation_ = 0;
  restarting_ = true;
  hold_ = false;
  target_reason_ = "start again";
  to_replace_.clear();
  // Workers that had a seat began without a checkpoint; those that wait for a first seat may still take one if there is
  // no checkpoint.
  for (auto& [id, worker] : roster_.workers()) {
    if ((worker.seated || settings_.has_checkpoints) && !worker.dying) stop_worker(worker);
  }
  if (trained) {
    const char* from =
        settings_.has_checkpoints ? "the newest checkpoint" : "the beginning, for there is no checkpoint";
    tell(Tell::Level::kWarning, std::string("no worker is left that holds the state: starting again from ") + from);
  }
  dirty_ = true;
}

// The same program with the same data would only fail again.
bool Membership::Impl::is_bad_code() const {
  const bool all_by_themselves =
      !losses_.empty() && std::all_of(losses_.begin(), losses_.end(), [](const Loss& loss) { return loss.by_itself; });
  if (!all_by_themselves || !members_.empty()) return false;
  return losses_.size() > 1 || !settings_.has_checkpoints || !recovery_.progress;
}

void Membership::Impl::note_progress(const protocol::WorkerHeartbeat& heartbeat) {
  if (heartbeat.generation >= progress_generation_ && heartbeat.step >= progress_step_) progressed_ = true;
}

// Called once for each fence.
void Membership::Impl::note_fruitless(bool progress) {
  recovery_.progress = progress;
  progressed_ = false;
  progress_generation_ = recovery_.fence + 1;
  progress_step_ = recovery_.resume_step + 1;
  if (const auto end = budget_.recovers(progress, recovery_.resume_step, recovery_cause()))
    fail_run(end->status, end->reason);
}

// Known from the first member that takes its seat: the others may never report it, nor may a supervisor that fails now.
bool Membership::Impl::remember_generation(Generation generation, Step first_step) {
  if (first_step == 0 || (!lineage_.empty() && lineage_.back().generation >= generation)) return false;
  lineage_.push_back({generation, first_step});
  if (lineage_.size() > kMostLineage) lineage_.erase(lineage_.begin());
  return true;
}

}  // namespace elastictrain::core
