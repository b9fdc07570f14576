#include "supervisor/core/completion.h"

#include <string>
#include <utility>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/failure_judge.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/host_judge.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/recovery.h"
#include "supervisor/core/run_end.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/training.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::core {

Completion::Completion(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
                       Recovery& recovery, DesiredState& desired, Startup& startup, RunEnd& end, HangDetector& hangs,
                       FailureJudge& judge, HostJudge& host_judge, Ending& ending)
    : settings_(settings),
      roster_(roster),
      out_(out),
      training_(training),
      change_(change),
      recovery_(recovery),
      desired_(desired),
      startup_(startup),
      end_(end),
      hangs_(hangs),
      judge_(judge),
      host_judge_(host_judge),
      ending_(ending) {}

// Every member trains in the new generation and every leaver has left.
void Completion::complete() {
  ET_CHECK(change_.stage == Stage::kCommitted && change_.waiting.empty(),
           "a change is complete when every worker has passed its boundary");
  const std::size_t size_before = training_.members.size();
  const bool recovered = recovery_.active();
  if (recovered) {
    change_.first_step = recovery_.resume_step + 1;
    desired_.hold = false;
    recovery_.end(out_, startup_);
  }
  training_.set_members(change_.members);
  training_.generation = change_.generation;
  hangs_.seat(training_.generation, roster_.unfinished(training_.members));
  host_judge_.judge_success();
  if (training_.members.size() >= training_.size_before_loss || !recovered) training_.size_before_loss = 0;
  if (!training_.members.empty()) begin_generation();
  training_.learning_rate_factor = change_.plan.learning_rate_factor;
  training_.synchronization = change_.plan.synchronization;
  training_.topology = change_.plan.topology;
  training_.parents = change_.plan.parents;
  if (training_.synchronization != settings_.synchronization && !training_.members.empty() &&
      desired_.update_reason.empty()) {
    desired_.update_reason =
        "train by " + std::string(protocol::name_of(settings_.synchronization)) + ", as requested before";
    out_.look_again();
  }
  training_.size_reason = training_.members.size() == size_before && !recovered && !training_.size_reason.empty()
                              ? training_.size_reason
                              : change_.reason;
  training_.last_change = "generation " + std::to_string(training_.generation) + ": " + change_.reason;
  for (WorkerId id : training_.members) {
    if (const Worker* worker = roster_.worker(id)) roster_.clear_blame(worker->place());
  }
  std::erase_if(desired_.replacements, [&](const auto& proposal) { return !training_.is_member(proposal.first); });
  out_.journal(record::GenerationComplete{training_.generation, change_.kind, change_.first_step,
                                          training_.members.size(), training_.members});
  if (!training_.members.empty()) out_.tell(Tell::Level::kInfo, training_.last_change);
  change_ = Change{};
  ET_CHECK(!recovery_.active(), "a complete generation ends the recovery before it");
  // Joiners of a recovery that another one followed wait for a first seat again.
  if (end_.mode == EndMode::kFinishing || end_.mode == EndMode::kDraining) ending_.dismiss_others();
  out_.look_again();
}

void Completion::begin_generation() {
  for (const protocol::Member& member : change_.plan.members) {
    if (Worker* worker = roster_.worker(member.worker)) worker->share = member.share;
  }
  training_.remember(training_.generation, change_.first_step);
  if (!std::exchange(training_.restarting, false)) return;
  judge_.restart(training_.generation, change_.first_step);
  out_.cancel(startup_.min_timer);
}

}  // namespace elastictrain::core
