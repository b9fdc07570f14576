#include "supervisor/core/reconciler.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "supervisor/core/change.h"
#include "supervisor/core/change_runner.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/host_list.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/plain_restart.h"
#include "supervisor/core/planner.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/stop_cause.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"
#include "supervisor/protocol/duration_text.h"

namespace elastictrain::core {

Reconciler::Reconciler(const RunSettings& settings, Roster& roster, Outbox& out, DesiredState& desired,
                       Startup& startup, Training& training, Change& change, TakeoverState& resume, Planner& planner,
                       WorkerControl& workers, HostList& hosts, ChangeRunner& runner, Ending& ending,
                       PlainRestart& plain)
    : settings_(settings),
      roster_(roster),
      out_(out),
      desired_(desired),
      startup_(startup),
      training_(training),
      change_(change),
      resume_(resume),
      planner_(planner),
      workers_(workers),
      hosts_(hosts),
      runner_(runner),
      ending_(ending),
      plain_(plain) {}

// Enough slots are there, or no more will come.
bool Reconciler::may_start() {
  if (training_.generation != 0 || startup_.spawned) return true;
  if (!startup_.hosts_known) return false;
  const std::uint32_t slots = roster_.usable_slots();
  if (slots >= planner_.target_size_of()) return true;
  if (calls_last(slots)) return false;
  const bool more_may_come =
      !startup_.expired && (roster_.any_launching() || roster_.any_awaited() || settings_.hosts_may_appear);
  const bool worth_waiting = !startup_.expired && (roster_.any_launching() || slots < settings_.min_workers);
  if (more_may_come && worth_waiting) return false;
  if (slots >= settings_.min_workers) return true;
  const std::string hosts = hosts_.unreachable_hosts();
  ending_.fail_run(69, "the hosts offer " + counted(slots, "slot") + ", but at least " +
                           counted(settings_.min_workers, "worker") + " must start" +
                           (hosts.empty() ? "" : " (" + hosts + ")") + ". Add hosts or slots, or lower workers.min.");
  return false;
}

// A program of fixed size takes no host later, so all get a chance to come.
bool Reconciler::calls_last(std::uint32_t slots) {
  if (settings_.last_call == Millis{0}) return false;
  const bool enough = slots >= settings_.min_workers;
  if (std::exchange(startup_.last_call, enough) != enough) {
    out_.cancel(startup_.timer);
    startup_.expired = false;
    const Millis limit = enough ? settings_.last_call : settings_.start_timeout;
    startup_.timer = out_.arm({TimerKind::kStart, {}, {}}, out_.now() + limit);
    if (enough) {
      out_.tell(Tell::Level::kInfo, "the hosts have slots for " + std::to_string(slots) + " of " +
                                        counted(planner_.target_size_of(), "worker") + ": the run waits up to " +
                                        protocol::duration_text(limit) +
                                        " for more (timeouts.start_ms), because a program of fixed size cannot take "
                                        "them later");
    }
  }
  return enough && !startup_.expired;
}

// Before it starts, or starts again: the cluster says when.
bool Reconciler::waits_for_lease() const {
  const bool none = desired_.lease.slots < settings_.min_workers || desired_.lease.hold;
  return settings_.leased && none && roster_.workers().empty();
}

// While the workers are still there: nobody would be left to hold the state. True: nothing else is to be done now.
bool Reconciler::saves_and_leaves() {
  if (!settings_.has_checkpoints || settings_.leased || !everybody_goes_away()) {
    desired_.saved = false;
    return false;
  }
  if (others_may_train()) return saves();
  constexpr const char* kReason = "every host is about to go away";
  out_.tell(Tell::Level::kWarning, std::string(kReason) + ": the run saves its state and leaves");
  ending_.begin_end(EndMode::kDraining, status_of(StopCause::kPreempted), kReason);
  return true;
}

// Once, without waiting for workers that start elsewhere: a plan with the same members.
bool Reconciler::saves() {
  const auto& members = training_.members;
  if (desired_.saved) return change_.stage == Stage::kPreparing && change_.saves && change_.members == members;
  if (!planner_.all_reachable(members)) return false;
  if (change_.stage == Stage::kPreparing) runner_.cancel("a checkpoint comes first");
  out_.cancel(change_.timer);
  change_ = Change{};
  change_.members = members;
  change_.kind = protocol::ChangeKind::kUpdatePlan;
  change_.reason = "save the state: the hosts of all workers are about to go away";
  change_.saves = desired_.saved = true;
  runner_.prepare();
  return true;
}

// By notice, at least one of them.
bool Reconciler::everybody_goes_away() const {
  bool noticed = false;
  for (const WorkerId id : training_.members) {
    const Worker* worker = roster_.worker(id);
    const Agent* agent = worker == nullptr ? nullptr : roster_.agent(worker->agent);
    if (agent != nullptr && !agent->goes_away()) return false;
    noticed = noticed || (agent != nullptr && agent->noticed);
  }
  return noticed;
}

bool Reconciler::others_may_train() const {
  const auto agents = roster_.agents_in_order();
  return std::any_of(agents.begin(), agents.end(), [](const Agent* agent) {
    return agent->offered && !agent->drain && !agent->stopping && agent->link != Link::kDown;
  });
}

void Reconciler::reconcile() {
  if (resume_.waiting || change_.stage == Stage::kCommitted || plain_.waits() || waits_for_lease() || !may_start()) {
    return;
  }
  if (saves_and_leaves()) return;
  const std::uint32_t want = planner_.target_size_of();
  if (startup_.is_plain() && want == 0) {
    ending_.begin_end(EndMode::kFinishing, 0, "all processes of the program exited");
    return;
  }
  const SwapInput input = planner_.swap_input();
  dismiss_misplaced(input.candidates);
  const SwapDecision aim = decide_swap(input);
  SwapDecision decision = aim;
  give_back_first(decision);
  const bool same = planner_.same_plan(decision);
  if (change_.stage == Stage::kPreparing && !same) runner_.cancel("a newer plan takes its place");
  const std::vector<WorkerId> next = carry_out(decision);
  if (training_.restarting && next.size() < settings_.min_workers && startup_.min_timer == 0) {
    startup_.min_timer = out_.arm({TimerKind::kWaitForMin, {}, {}}, out_.now() + settings_.failures.wait_for_min);
  }
  if (training_.generation == 0 && !training_.restarting &&
      next.size() + startup_.plain_finished < settings_.min_workers && !planner_.settling()) {
    if (waits_for_hosts()) return;
    ending_.fail_run(startup_.program_status == 0 ? 69 : startup_.program_status, why_too_few(next.size()));
    return;
  }
  tell_unmet(aim, want);
  tell_no_first();
  if (change_.stage == Stage::kPreparing) return;
  if (next == training_.members && desired_.update_reason.empty()) {
    out_.cancel(change_.timer);
    change_ = Change{};
    return;
  }
  if (!same) {
    out_.cancel(change_.timer);
    change_ = Change{};
    change_.members = next;
  }
  change_.stage = Stage::kGathering;
  change_.leavers = decision.leave;
  change_.not_ready = static_cast<std::size_t>(
      std::count_if(next.begin(), next.end(), [&](WorkerId id) { return !roster_.worker(id)->ready(); }));
  auto [kind, reason] = planner_.describe(decision, next.size());
  change_.kind = kind;
  change_.reason = std::move(reason);
  const bool may_begin = startup_.elastic && next.size() >= (training_.generation == 0 ? settings_.min_workers : 1U) &&
                         planner_.all_reachable(next);
  if (change_.not_ready == 0 && !change_.retrying && may_begin) runner_.prepare();
}

// The first cause comes first. How many others would have started is not known.
std::string Reconciler::why_too_few(std::size_t count) const {
  const std::string hosts = hosts_.unreachable_hosts();
  const std::string& workers = workers_.newest_failure();
  const std::string least = "t least " + counted(settings_.min_workers, "worker") + " must start";
  if (!workers.empty()) return workers + (hosts.empty() ? "" : "; " + hosts) + ". A" + least;
  return "only " + counted(count, "worker") + " can start, but a" + least + ": " +
         (hosts.empty() ? "the hosts have no other slot" : hosts);
}

// The slots that a cluster takes are free before workers that still start join: these join in the change after it.
void Reconciler::give_back_first(SwapDecision& decision) const {
  const bool gives_back = std::any_of(decision.leave.begin(), decision.leave.end(),
                                      [&](WorkerId id) { return planner_.gives_back(*roster_.worker(id)); });
  if (!settings_.leased || !gives_back || decision.stay.empty() || decision.bridge) return;
  const auto is_late = [&](WorkerId id) {
    return !roster_.worker(id)->ready() || (change_.stage == Stage::kPreparing && !change_.plans(id));
  };
  const auto late = std::count_if(decision.join.begin(), decision.join.end(), is_late);
  const std::size_t present = decision.stay.size() + decision.join.size() - static_cast<std::size_t>(late);
  if (present < settings_.min_workers) return;
  const auto first_late = std::stable_partition(decision.join.begin(), decision.join.end(), std::not_fn(is_late));
  decision.spare.insert(decision.spare.end(), first_late, decision.join.end());
  decision.join.erase(first_late, decision.join.end());
  decision.start_spare.insert(decision.start_spare.begin(), decision.start.begin(), decision.start.end());
  decision.start.clear();
}

// Workers in no generation whose host or slot goes away, or whose slot's member stays after all.
void Reconciler::dismiss_misplaced(const std::vector<Candidate>& candidates) {
  std::set<WorkerId> useful;
  for (const Candidate& candidate : candidates) useful.insert(candidate.worker);
  for (auto& [id, worker] : roster_.workers()) {
    if (training_.is_member(id) || useful.contains(id) || worker.dying()) continue;
    if (change_.plans(id) && change_.stage == Stage::kPreparing) runner_.cancel("a newer plan takes its place");
    workers_.dismiss(worker, "its slot must not be used any more");
  }
}

// Starts and dismisses workers; returns the members of the next generation in rank order.
std::vector<WorkerId> Reconciler::carry_out(const SwapDecision& decision) {
  for (WorkerId id : decision.dismiss) workers_.dismiss(*roster_.worker(id), "not needed");
  std::vector<WorkerId> joiners = decision.join;
  std::vector<WorkerId> fresh;
  for (Place place : decision.start) fresh.push_back(roster_.add_worker(place).id);
  joiners.insert(joiners.end(), fresh.begin(), fresh.end());
  std::sort(joiners.begin(), joiners.end());  // the oldest worker has the lowest rank
  std::vector<WorkerId> next = decision.stay;
  next.insert(next.end(), joiners.begin(), joiners.end());
  for (Place place : decision.start_spare) fresh.push_back(roster_.add_worker(place).id);
  if (!fresh.empty()) workers_.start(next, fresh);
  if (training_.generation == 0 && !startup_.spawned && !next.empty()) {
    startup_.spawned = true;
    startup_.spawned_at = out_.now();
    startup_.first_size = static_cast<std::uint32_t>(next.size());
    out_.cancel(startup_.timer);
    if (settings_.last_call != Millis{0}) out_.arm({TimerKind::kFixed, {}, {}}, out_.now() + settings_.ready_timeout);
  }
  return next;
}

// An agent was lost before anything trained, and its host is tried again: as long as at the start.
bool Reconciler::waits_for_hosts() {
  if (startup_.expired || !asks_hosts()) return false;
  if (startup_.timer == 0) {
    startup_.timer = out_.arm({TimerKind::kStart, {}, {}}, out_.now() + settings_.start_timeout);
  }
  return true;
}

// No host has answered yet, and some are asked or will be.
bool Reconciler::asks_hosts() const {
  const auto agents = roster_.agents_in_order();
  return std::any_of(agents.begin(), agents.end(), [](const Agent* agent) {
    const bool is_asked = agent->link == Link::kLaunching || (agent->link == Link::kDown && agent->timer != 0);
    return is_asked && agent->offered && !agent->drain && !agent->stopping;
  });
}

// Reports once which part of the desired state cannot be reached now, when nothing in progress could reach it.
void Reconciler::tell_unmet(const SwapDecision& decision, std::uint32_t want) {
  const bool will_ask = !startup_.hosts_known && roster_.agents().empty();  // a run that starts again
  if (planner_.settling() || !startup_.spawned || (decision.size() == 0 && (will_ask || asks_hosts()))) return;
  give_up_replacements(decision);
  const std::string text = planner_.unmet_text(decision, want);
  if (text == desired_.unmet) return;
  desired_.unmet = text;
  if (text.empty()) return;
  out_.journal(record::TargetUnmet{desired_.target, decision.size(), text});
  out_.tell(Tell::Level::kWarning, text);
}

// Rank 0 of the environment is gone, and nobody comes who has it.
void Reconciler::tell_no_first() {
  if (!settings_.keeps_first || training_.generation == 0 || !startup_.elastic || planner_.settling()) return;
  const auto& all = roster_.workers();
  const bool is_there = std::any_of(all.begin(), all.end(),
                                    [](const auto& entry) { return entry.second.is_first && !entry.second.dying(); });
  if (std::exchange(desired_.no_first_told, !is_there) || is_there) return;
  const std::string why = workers_.why_no_first().empty() ? "no new worker is started" : workers_.why_no_first();
  out_.journal(record::FirstMissing{why});
  out_.tell(Tell::Level::kWarning,
            "no worker is left that was started as rank 0 (" + why +
                "). A program that keeps RANK in a variable saves and prints nothing from here on");
}

void Reconciler::give_up_replacements(const SwapDecision& decision) {
  for (WorkerId id : decision.stay) {
    if (id == decision.bridge || desired_.replacements.erase(id) == 0) continue;
    out_.journal(record::ReplaceGivenUp{id});
    out_.tell(Tell::Level::kWarning,
              workers_.name_of(*roster_.worker(id)) + " stays: no worker could be started in its place");
  }
}

}  // namespace elastictrain::core
