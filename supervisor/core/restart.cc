#include "supervisor/core/restart.h"

#include <string>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"

namespace elastictrain::core {

Restart::Restart(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
                 Recovery& recovery, DesiredState& desired, RunEnd& end, FailureJudge& judge, WorkerControl& workers,
                 Startup& startup, Ending& ending)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      end_(end),
      judge_(judge),
      workers_(workers),
      startup_(startup),
      ending_(ending) {}

// The remaining members have no complete state: it must come from a checkpoint or be created again.
void Restart::lose_state() {
  const bool trained = training_.generation != 0;
  Loss first;
  first.text = recovery_.cause();
  if (!judge_.losses().empty()) first = judge_.losses().front();
  if (end_.mode == EndMode::kFinishing) {
    judge_.end_without(first, "; the training had ended before");
    return;
  }
  out_.journal(record::StateLost{recovery_.fence, training_.generation, settings_.has_checkpoints, recovery_.cause()},
               true);
  if (end_.begun()) {
    // The requested orderly end is not possible any more; a status that reports worse is kept.
    if (end_.status == 0) return ending_.fail_run(first.status, first.text + first.detail);
    judge_.end_without(judge_.losses().empty() ? first : judge_.losses().back(), "; the run was ending");
    return;
  }
  if (judge_.is_bad_code()) {
    const std::string all =
        judge_.losses().size() > 1 ? "\nEvery worker exited by itself: the program fails everywhere." : "";
    ending_.fail_run(first.status, first.text + first.detail + all);
    return;
  }
  recovery_.end(out_, startup_);
  training_.set_members({});
  change_ = Change{};
  training_.generation = 0;
  training_.restarting = true;
  desired_.hold = false;
  desired_.target_reason = "start again";
  desired_.replacements.clear();
  // Workers that had a seat began without a checkpoint; those that wait for a first seat may still take one if there is
  // no checkpoint, unless their process holds the state of another worker.
  for (auto& [id, worker] : roster_.workers()) {
    const bool began_without = worker.seated() || worker.was_warm;
    if ((began_without || settings_.has_checkpoints) && !worker.dying()) workers_.stop(worker);
  }
  if (trained) {
    const char* from =
        settings_.has_checkpoints ? "the newest checkpoint" : "the beginning, for there is no checkpoint";
    out_.tell(Tell::Level::kWarning,
              std::string("no worker is left that holds the state: starting again from ") + from);
  }
  out_.look_again();
}

}  // namespace elastictrain::core
