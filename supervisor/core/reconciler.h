// Purpose: takes the next step from the actual state towards the desired one: starts and dismisses workers, and begins
// a change when its workers are ready. A newer desired state supersedes an older one.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/swap_plan.h"

namespace elastictrain::core {

struct Change;
class ChangeRunner;
struct DesiredState;
class Ending;
class HostList;
class Outbox;
class PlainRestart;
class Planner;
struct RunSettings;
struct Startup;
struct TakeoverState;
struct Training;
class WorkerControl;

class Reconciler {
 public:
  Reconciler(const RunSettings& settings, Roster& roster, Outbox& out, DesiredState& desired, Startup& startup,
             Training& training, Change& change, TakeoverState& resume, Planner& planner, WorkerControl& workers,
             HostList& hosts, ChangeRunner& runner, Ending& ending, PlainRestart& plain);

  void reconcile();
  std::vector<WorkerId> carry_out(const SwapDecision& decision);

 private:
  bool may_start();
  bool calls_last(std::uint32_t slots);
  bool waits_for_lease() const;
  std::string why_too_few(std::size_t count) const;
  bool asks_hosts() const;
  bool waits_for_hosts();
  bool saves_and_leaves();
  bool saves();
  bool everybody_goes_away() const;
  bool others_may_train() const;
  void give_back_first(SwapDecision& decision) const;
  void dismiss_misplaced(const std::vector<Candidate>& candidates);
  void tell_unmet(const SwapDecision& decision, std::uint32_t want);
  void tell_no_first();
  void give_up_replacements(const SwapDecision& decision);

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  DesiredState& desired_;
  Startup& startup_;
  Training& training_;
  Change& change_;
  TakeoverState& resume_;
  Planner& planner_;
  WorkerControl& workers_;
  HostList& hosts_;
  ChangeRunner& runner_;
  Ending& ending_;
  PlainRestart& plain_;
};

}  // namespace elastictrain::core
