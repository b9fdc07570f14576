// Purpose: decides whether the run tolerates a loss: the budgets, what follows from a loss, and whether recoveries make
// progress.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/failure_budget.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/settings.h"

namespace elastictrain::core {

struct DesiredState;
class Ending;
class Halt;
class HostJudge;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Training;

class FailureJudge {
 public:
  FailureJudge(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Recovery& recovery,
               DesiredState& desired, RunEnd& end, Ending& ending, Halt& halt, HostJudge& host_judge);

  void lose_member(Loss loss);
  void forget_repaired_losses();
  void end_without(const Loss& loss, const char* why);
  bool is_bad_code() const;
  void note_progress(const protocol::WorkerHeartbeat& heartbeat);
  void note_recovery();
  // The run begins again: progress is counted from its first step.
  void restart(Generation generation, Step first_step);
  const std::vector<Loss>& losses() const { return losses_; }
  const FailureBudget& budget() const { return budget_; }

 private:
  // Workers that were killed for want of memory, one after the other, at one size.
  struct OomRow {
    std::size_t size = 0;
    std::uint32_t count = 0;
    Instant last;
  };

  void charge(const Loss& loss);
  void note_out_of_memory(const Loss& loss);

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Recovery& recovery_;
  DesiredState& desired_;
  RunEnd& end_;
  Ending& ending_;
  Halt& halt_;
  HostJudge& host_judge_;
  FailureBudget budget_;
  std::vector<Loss> losses_;  // since the last committed step
  OomRow oom_row_;
  Generation oom_generation_ = 0;       // that lost the last of them
  bool progressed_ = true;              // a step was committed since the last recovery
  Generation progress_generation_ = 0;  // ... which is known from heartbeats of this generation
  Step progress_step_ = 0;              // ... of this step or a later one
};

}  // namespace elastictrain::core
