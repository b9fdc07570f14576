#include "supervisor/core/reconciling.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/changing.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/planner.h"
#include "supervisor/core/pure/exit_text.h"
#include "supervisor/core/pure/swap_plan.h"
#include "supervisor/core/starting.h"
#include "supervisor/core/workers.h"

namespace elastictrain::core {

// Once, without waiting for workers that start elsewhere: a plan with the same members.
static bool saves(Run& run) {
  const auto& members = run.training.members;
  if (run.desired.saved)
    return run.change.stage == Stage::kPreparing && run.change.saves && run.change.members == members;
  const bool all_ready = std::all_of(members.begin(), members.end(), [&](WorkerId id) {
    const Worker* worker = run.roster.worker(id);
    return worker != nullptr && worker->ready() && !worker->dying();
  });
  if (!all_ready || !all_reachable(run, members)) return false;
  if (run.change.stage == Stage::kPreparing) cancel_change(run, "a checkpoint comes first");
  run.out.cancel(run.change.timer);
  run.change = Change{};
  run.change.members = members;
  run.change.kind = protocol::ChangeKind::kUpdatePlan;
  run.change.reason = "save the state: the hosts of all workers are about to go away";
  run.change.saves = run.desired.saved = true;
  prepare_change(run);
  return true;
}

// By notice, at least one of them.
static bool everybody_goes_away(const Run& run) {
  bool noticed = false;
  for (const WorkerId id : run.training.members) {
    const Worker* worker = run.roster.worker(id);
    const Agent* agent = worker == nullptr ? nullptr : run.roster.agent(worker->agent);
    if (agent != nullptr && !agent->goes_away()) return false;
    noticed = noticed || (agent != nullptr && agent->noticed);
  }
  return noticed;
}

static bool others_may_train(const Run& run) {
  const auto agents = run.roster.agents_in_order();
  return std::any_of(agents.begin(), agents.end(), [](const Agent* agent) {
    return agent->offered && !agent->drain && !agent->stopping && agent->link != Link::kDown;
  });
}

// While the workers are still there: nobody would be left to hold the state. True: nothing else is to be done now.
static bool saves_and_leaves(Run& run) {
  if (!run.settings.has_checkpoints || run.settings.leased || !everybody_goes_away(run)) {
    run.desired.saved = false;
    return false;
  }
  if (others_may_train(run)) return saves(run);
  constexpr const char* kReason = "every host is about to go away";
  run.out.tell(Tell::Level::kWarning, std::string(kReason) + ": the run saves its state and leaves");
  want_end(run, EndMode::kDraining, status_of(StopCause::kPreempted), kReason);
  return true;
}

// The slots that a cluster takes are free before workers that still start join: these join in the change after it.
static void give_back_first(const Run& run, SwapDecision& decision) {
  const bool is_due = std::any_of(decision.leave.begin(), decision.leave.end(),
                                  [&](WorkerId id) { return gives_back(run, *run.roster.worker(id)); });
  if (!run.settings.leased || !is_due || decision.stay.empty() || decision.bridge) return;
  const auto is_late = [&](WorkerId id) {
    return !run.roster.worker(id)->ready() || (run.change.stage == Stage::kPreparing && !run.change.plans(id));
  };
  const auto late = std::count_if(decision.join.begin(), decision.join.end(), is_late);
  const std::size_t present = decision.stay.size() + decision.join.size() - static_cast<std::size_t>(late);
  if (present < run.settings.min_workers) return;
  const auto first_late = std::stable_partition(decision.join.begin(), decision.join.end(), std::not_fn(is_late));
  decision.spare.insert(decision.spare.end(), first_late, decision.join.end());
  decision.join.erase(first_late, decision.join.end());
  decision.start_spare.insert(decision.start_spare.begin(), decision.start.begin(), decision.start.end());
  decision.start.clear();
}

// Workers in no generation whose host or slot goes away, or whose slot's member stays after all.
static void dismiss_misplaced(Run& run, const std::vector<Candidate>& candidates) {
  std::set<WorkerId> useful;
  for (const Candidate& candidate : candidates) useful.insert(candidate.worker);
  for (auto& [id, worker] : run.roster.workers()) {
    if (run.training.is_member(id) || useful.contains(id) || worker.dying()) continue;
    if (run.change.plans(id) && run.change.stage == Stage::kPreparing)
      cancel_change(run, "a newer plan takes its place");
    dismiss(run, worker, "its slot must not be used any more");
  }
}

static void give_up_replacements(Run& run, const SwapDecision& decision) {
  for (WorkerId id : decision.stay) {
    if (id == decision.bridge || run.desired.replacements.erase(id) == 0) continue;
    run.out.journal(record::ReplaceGivenUp{id});
    run.out.tell(Tell::Level::kWarning,
                 name_of(run, *run.roster.worker(id)) + " stays: no worker could be started in its place");
  }
}

// Reports once which part of the desired state cannot be reached now, when nothing in progress could reach it.
static void tell_unmet(Run& run, const SwapDecision& decision, std::uint32_t want) {
  const bool will_ask = !run.startup.hosts_known && run.roster.agents().empty();  // a run that starts again
  if (is_settling(run) || !run.startup.spawned || (decision.size() == 0 && (will_ask || asks_hosts(run)))) return;
  give_up_replacements(run, decision);
  const std::string text = unmet_text(run, decision, want);
  if (text == run.desired.unmet) return;
  run.desired.unmet = text;
  if (text.empty()) return;
  run.out.journal(record::TargetUnmet{run.desired.target, decision.size(), text});
  run.out.tell(Tell::Level::kWarning, text);
}

// Rank 0 of the environment is gone, and nobody comes who has it.
static void tell_no_first(Run& run) {
  if (!run.settings.keeps_first || run.training.generation == 0 || !run.startup.elastic || is_settling(run)) return;
  const auto& all = run.roster.workers();
  const bool is_there = std::any_of(all.begin(), all.end(),
                                    [](const auto& entry) { return entry.second.is_first && !entry.second.dying(); });
  if (std::exchange(run.desired.no_first_told, !is_there) || is_there) return;
  const std::string why =
      run.start_failures.no_first.empty() ? "no new worker is started" : run.start_failures.no_first;
  run.out.journal(record::FirstMissing{why});
  run.out.tell(Tell::Level::kWarning,
               "no worker is left that was started as rank 0 (" + why +
                   "). A program that keeps RANK in a variable saves and prints nothing from here on");
}

void reconcile(Run& run) {
  if (run.takeover.waiting || run.change.stage == Stage::kCommitted || clears_plain(run) || waits_for_lease(run) ||
      !may_start(run)) {
    return;
  }
  if (saves_and_leaves(run)) return;
  const std::uint32_t want = target_size(run);
  if (run.startup.is_plain() && want == 0) {
    want_end(run, EndMode::kFinishing, 0, "all processes of the program exited");
    return;
  }
  const SwapInput input = swap_input(run);
  dismiss_misplaced(run, input.candidates);
  const SwapDecision aim = decide_swap(input);
  SwapDecision decision = aim;
  give_back_first(run, decision);
  const bool same = is_same_plan(run, decision);
  if (run.change.stage == Stage::kPreparing && !same) cancel_change(run, "a newer plan takes its place");
  const std::vector<WorkerId> next = carry_out(run, decision);
  if (run.training.restarting && next.size() < run.settings.min_workers && run.startup.min_timer == 0) {
    run.startup.min_timer =
        run.out.arm({TimerKind::kWaitForMin, {}, {}}, run.out.now() + run.settings.failures.wait_for_min);
  }
  if (run.training.generation == 0 && !run.training.restarting &&
      next.size() + run.startup.plain_finished < run.settings.min_workers && !is_settling(run)) {
    if (waits_for_hosts(run)) return;
    fail_run(run, run.startup.program_status == 0 ? 69 : run.startup.program_status, why_too_few(run, next.size()));
    return;
  }
  tell_unmet(run, aim, want);
  tell_no_first(run);
  if (run.change.stage == Stage::kPreparing) return;
  if (next == run.training.members && run.desired.update_reason.empty()) {
    run.out.cancel(run.change.timer);
    run.change = Change{};
    return;
  }
  if (!same) {
    run.out.cancel(run.change.timer);
    run.change = Change{};
    run.change.members = next;
  }
  run.change.stage = Stage::kGathering;
  run.change.leavers = decision.leave;
  run.change.not_ready = static_cast<std::size_t>(
      std::count_if(next.begin(), next.end(), [&](WorkerId id) { return !run.roster.worker(id)->ready(); }));
  auto [kind, reason] = describe_change(run, decision, next.size());
  run.change.kind = kind;
  run.change.reason = std::move(reason);
  const bool may_begin = run.startup.elastic &&
                         next.size() >= (run.training.generation == 0 ? run.settings.min_workers : 1U) &&
                         all_reachable(run, next);
  if (run.change.not_ready == 0 && !run.change.retrying && may_begin) prepare_change(run);
}

std::vector<WorkerId> carry_out(Run& run, const SwapDecision& decision) {
  for (WorkerId id : decision.dismiss) dismiss(run, *run.roster.worker(id), "not needed");
  std::vector<WorkerId> joiners = decision.join;
  std::vector<WorkerId> fresh;
  for (Place place : decision.start) fresh.push_back(run.roster.add_worker(place).id);
  joiners.insert(joiners.end(), fresh.begin(), fresh.end());
  std::sort(joiners.begin(), joiners.end());  // the oldest worker has the lowest rank
  std::vector<WorkerId> next = decision.stay;
  next.insert(next.end(), joiners.begin(), joiners.end());
  for (Place place : decision.start_spare) fresh.push_back(run.roster.add_worker(place).id);
  if (!fresh.empty()) start_workers(run, next, fresh);
  if (run.training.generation == 0 && !run.startup.spawned && !next.empty()) {
    run.startup.spawned = true;
    run.startup.spawned_at = run.out.now();
    run.startup.first_size = static_cast<std::uint32_t>(next.size());
    run.out.cancel(run.startup.timer);
    if (run.settings.last_call != Millis{0})
      run.out.arm({TimerKind::kFixed, {}, {}}, run.out.now() + run.settings.ready_timeout);
  }
  return next;
}

}  // namespace elastictrain::core
