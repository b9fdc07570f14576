#include "supervisor/core/reconciling.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/changing.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/pure/swap_plan.h"
#include "supervisor/core/starting.h"
#include "supervisor/core/workers.h"

namespace elastictrain::core {

std::uint32_t size_limit(const Run& run) {
  return std::max(heuristics::max_workers(run.settings.batch), run.settings.min_workers);
}

std::uint32_t target_size(const Run& run) {
  if (run.desired.hold) return static_cast<std::uint32_t>(run.training.members.size());
  if (run.startup.is_plain()) return run.startup.first_size - run.startup.plain_finished;
  const std::uint32_t size = std::min(asked_size(run), size_limit(run));
  return run.desired.refused ? std::min(size, run.desired.refused->size) : size;
}

std::uint32_t asked_size(const Run& run) {
  return run.settings.leased ? std::min(run.desired.target, run.desired.lease.slots) : run.desired.target;
}

bool is_displaced(const Run& run, const Worker& worker) {
  const Agent* agent = run.roster.agent(worker.agent);
  return !agent->usable() || !agent->may_use(worker.slot);
}

bool gives_back(const Run& run, const Worker& worker) {
  const Agent& agent = *run.roster.agent(worker.agent);
  const bool can_wait = agent.link == Link::kUp && !agent.drain && !agent.stopping;
  return is_displaced(run, worker) && !(run.settings.leased && run.desired.lease.moves && can_wait);
}

static std::set<std::string> avoided_hosts(const Run& run) {
  std::set<std::string> hosts;
  for (const auto& [id, kind] : run.desired.replacements) {
    if (kind == protocol::ChangeKind::kMigrate) hosts.insert(run.roster.worker(id)->host);
  }
  return hosts;
}

std::vector<Candidate> candidates(const Run& run) {
  const std::set<WorkerId> planned(run.change.members.begin(), run.change.members.end());
  const std::set<std::string> avoided = avoided_hosts(run);
  std::vector<Candidate> list;
  for (const auto& [id, worker] : run.roster.workers()) {
    if (worker.dying() || worker.finished() || run.training.is_member(id) || is_displaced(run, worker)) continue;
    bool shared = false;
    bool blocked = false;
    for (WorkerId other : run.roster.occupants(worker.place())) {
      if (other == id) continue;
      shared = true;
      blocked = blocked || !run.desired.replacements.contains(other);
    }
    if (blocked) continue;
    const bool fixed = run.change.stage == Stage::kPreparing && planned.contains(id);
    list.push_back({id, worker.place(), !shared, !fixed && avoided.contains(worker.host)});
  }
  std::stable_sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
    const bool fixed = run.change.stage == Stage::kPreparing;
    const auto rank = [&](const Candidate& c) {
      if (fixed && planned.contains(c.worker)) return 0;
      if (run.roster.worker(c.worker)->ready()) return 1;
      return planned.contains(c.worker) ? 2 : 3;
    };
    return rank(a) < rank(b);
  });
  return list;
}

// Slots whose process is warm come first: it joins at once. Then hosts that have workers of this run: those share
// memory, and each further host adds network traffic.
std::vector<Place> free_places(const Run& run) {
  std::vector<const Agent*> agents = run.roster.agents_in_order();
  std::stable_partition(agents.begin(), agents.end(), [](const Agent* agent) { return !agent->workers.empty(); });
  const std::set<std::string> avoided = avoided_hosts(run);
  std::vector<Place> preferred;
  std::vector<Place> others;
  std::vector<Place> doubtful;
  for (const Agent* agent : agents) {
    if (!agent->reachable()) continue;
    std::set<std::uint32_t> taken;
    for (WorkerId id : agent->workers) taken.insert(run.roster.worker(id)->slot);
    auto& list = !run.health.usable(agent->host, run.out.now()) ? doubtful
                 : avoided.contains(agent->host)                ? others
                                                                : preferred;
    for (std::uint32_t slot = 0; slot < agent->slots; ++slot) {
      const Place place{agent->id, slot};
      if (!agent->may_use(slot) || taken.contains(slot) || run.roster.rests(place, run.out.now())) continue;
      (run.roster.is_blamed(place) ? doubtful : list).push_back(place);
    }
  }
  std::stable_partition(preferred.begin(), preferred.end(),
                        [&](Place place) { return run.roster.warm_process(place) != nullptr; });
  preferred.insert(preferred.end(), others.begin(), others.end());
  // A doubtful host or slot is better than none.
  const std::size_t others_can_train = run.roster.workers().size() + preferred.size();
  if (others_can_train < run.settings.min_workers) preferred.insert(preferred.end(), doubtful.begin(), doubtful.end());
  return preferred;
}

// A recovery in the middle of a replacement leaves both workers in one slot: the older one leaves.
static bool yields_slot(const Run& run, const Worker& worker) {
  const std::vector<WorkerId> occupants = run.roster.occupants(worker.place());
  return std::any_of(occupants.begin(), occupants.end(),
                     [&](WorkerId other) { return other > worker.id && run.training.is_member(other); });
}

// A successor needs as much of the device as it uses now, and less is free. Others that use the device count as if they
// were this worker: then it leaves first without need, which costs less than a successor that finds no memory.
static bool fills_device(const Worker& worker) {
  const protocol::DeviceMemoryUse& device = worker.heartbeat.device;
  return device.total_bytes > 0 && device.free_bytes < device.total_bytes - device.free_bytes;
}

static bool anybody_leaves(const Run& run) {
  return std::any_of(run.roster.workers().begin(), run.roster.workers().end(),
                     [&](const auto& entry) { return entry.second.dying() && !is_displaced(run, entry.second); });
}

static CurrentMember current_member(const Run& run, WorkerId id) {
  const Worker& worker = *run.roster.worker(id);
  CurrentMember member{id, worker.place()};
  if (run.desired.hold) return member;
  member.leads = worker.may_lead;
  member.displaced = gives_back(run, worker) || yields_slot(run, worker);
  member.replaced = run.desired.replacements.contains(id) || is_displaced(run, worker);
  const bool may_overlap = !is_displaced(run, worker) && run.roster.occupants(member.place).size() == 1 &&
                           !run.roster.is_blamed(member.place) && run.roster.agent(worker.agent)->reachable();
  const bool is_full = fills_device(worker);
  member.can_overlap = may_overlap && !is_full;
  member.leaves_first = member.replaced && may_overlap && is_full && !anybody_leaves(run);
  return member;
}

SwapInput swap_input(const Run& run) {
  SwapInput input;
  for (WorkerId id : run.training.members) input.members.push_back(current_member(run, id));
  std::stable_partition(input.members.begin(), input.members.end(), [](const auto& member) { return member.leads; });
  input.candidates = candidates(run);
  input.free = free_places(run);
  input.want = target_size(run);
  input.min = run.settings.min_workers;
  // A plain program would not understand that its extra processes are meant to wait.
  input.spares = run.startup.elastic ? run.settings.spares : 0;
  return input;
}

bool is_settling(const Run& run) {
  return run.roster.any_launching() || anybody_leaves(run);
}

bool all_reachable(const Run& run, const std::vector<WorkerId>& next) {
  const auto cut_off = [&](WorkerId id) {
    const Worker* worker = run.roster.worker(id);
    return worker != nullptr && run.roster.agent(worker->agent)->cut_off;
  };
  return std::none_of(run.training.members.begin(), run.training.members.end(), cut_off) &&
         std::none_of(next.begin(), next.end(), cut_off);
}

bool is_same_plan(const Run& run, const SwapDecision& decision) {
  if (run.change.stage == Stage::kIdle || !decision.start.empty()) return false;
  std::vector<WorkerId> next = decision.stay;
  std::vector<WorkerId> joiners = decision.join;
  std::sort(joiners.begin(), joiners.end());
  next.insert(next.end(), joiners.begin(), joiners.end());
  return next == run.change.members;
}

static const std::string& size_reason(const Run& run) {
  return run.settings.leased && run.desired.lease.slots <= run.desired.target ? run.desired.lease.reason
                                                                              : run.desired.target_reason;
}

ChangeDescription describe_change(const Run& run, const SwapDecision& decision, std::size_t next_size) {
  using protocol::ChangeKind;
  ChangeDescription found;
  const std::size_t size = run.training.members.size();
  const std::string sizes = "from " + std::to_string(size) + " to " + std::to_string(next_size);
  if (run.training.generation == 0) {
    found.kind = ChangeKind::kStart;
    found.reason = (run.training.restarting ? "start again with " : "start with ") + counted(next_size, "worker");
    return found;
  }
  std::set<std::string> drained;
  std::string replaced;
  ChangeKind replace_kind = ChangeKind::kReplace;
  std::vector<WorkerId> going = decision.leave;
  if (decision.bridge) going.push_back(*decision.bridge);
  for (WorkerId id : going) {
    const Worker& worker = *run.roster.worker(id);
    if (is_displaced(run, worker)) drained.insert(worker.host);
    const auto proposal = run.desired.replacements.find(id);
    if (proposal == run.desired.replacements.end()) continue;
    replaced += (replaced.empty() ? "" : ", ") + name_of(run, worker);
    if (proposal->second == ChangeKind::kMigrate) replace_kind = ChangeKind::kMigrate;
  }
  if (!drained.empty() && run.settings.leased) {
    found.kind = next_size < size ? ChangeKind::kShrink : next_size > size ? ChangeKind::kGrow : ChangeKind::kMigrate;
    found.reason = run.desired.lease.moves ? "exchange slots of" : "give back slots of";
    for (const std::string& host : drained) found.reason += " " + host;
    if (next_size != size) found.reason += ", " + sizes + " workers";
    found.reason += ": " + run.desired.lease.reason;
  } else if (!drained.empty()) {
    found.kind = ChangeKind::kDrain;
    found.reason = "leave";
    for (const std::string& host : drained) found.reason += " " + host;
    if (next_size != size) found.reason += ", " + sizes + " workers";
  } else if (!replaced.empty()) {
    found.kind = replace_kind;
    found.reason = (replace_kind == ChangeKind::kMigrate ? "move " : "replace ") + replaced;
    if (next_size != size) found.reason += ", " + sizes + " workers";
    if (decision.makes_room)
      found.reason += "; its device has no memory for two, so its successor starts when it has left";
  } else if (next_size == size && !decision.stay.empty() && decision.stay.front() != run.training.members.front()) {
    found.kind = ChangeKind::kUpdatePlan;
    found.reason = name_of(run, *run.roster.worker(decision.stay.front())) + " was started as rank 0, and gets it";
  } else if (next_size == size && !run.desired.update_reason.empty()) {
    found.kind = ChangeKind::kUpdatePlan;
    found.reason = run.desired.update_reason;
  } else {
    found.kind = next_size > size ? ChangeKind::kGrow : ChangeKind::kShrink;
    const bool again = next_size > size && next_size <= run.training.size_before_loss;
    found.reason = (next_size > size ? "grow " : "shrink ") + sizes +
                   " workers: " + (again ? "in place of those that were lost" : size_reason(run));
  }
  if (decision.bridge) found.reason += "; rank 0 stays until the next change, to send its state";
  return found;
}

std::string unmet_text(const Run& run, const SwapDecision& decision, std::uint32_t want) {
  std::string text;
  const std::uint32_t asked = run.desired.hold || !run.startup.elastic ? want : asked_size(run);
  if (decision.size() < want) {
    text = counted(asked, "worker") + (asked == 1 ? " is" : " are") + " requested and ";
    if (run.settings.leased) text = "the cluster leases " + counted(run.desired.lease.slots, "slot") + ", and ";
    text += std::to_string(decision.size()) + " can train: no other slot is free";
    const std::size_t blamed = run.roster.blamed_slots();
    for (const HostHealth::Cooled& host : run.health.cooled(run.out.now())) {
      text += ", host " + host.host + " failed " + counted(host.failures, "time") + " and is not used for a while";
    }
    for (const Agent* agent : run.roster.agents_in_order()) {
      if (agent->drain && agent->offered && !agent->noticed) text += ", host " + agent->host + " is drained";
    }
    if (blamed > 0) text += ", and in " + counted(blamed, "slot") + " new workers failed";
    text += run.settings.leased ? ". The rest follows when their hosts answer."
                                : ". The rest follows when hosts appear or you repeat the request.";
  } else if (want < asked && run.desired.refused && want == run.desired.refused->size) {
    text = counted(asked, "worker") + (asked == 1 ? " is" : " are") + " requested, and " + std::to_string(want) +
           " train: grow refused: " + run.desired.refused->reason + ". `elastictrain resize` tries it again.";
  } else if (want < asked) {
    text =
        counted(asked, "worker") + " are requested, but the limit of the global batch allows " + std::to_string(want);
  }
  for (WorkerId id : decision.held) {
    text += (text.empty() ? "" : " ") + name_of(run, *run.roster.worker(id)) +
            " stays although its host goes away: at least " + counted(run.settings.min_workers, "worker") +
            " must train.";
  }
  return text;
}

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
  const bool somebody_comes = !decision.join.empty() || !decision.start.empty();
  for (WorkerId id : decision.stay) {
    const Worker& worker = *run.roster.worker(id);
    const bool is_full = fills_device(worker);
    if (id == decision.bridge || (is_full && somebody_comes) || run.desired.replacements.erase(id) == 0) continue;
    run.out.journal(record::ReplaceGivenUp{id});
    const std::string why = is_full ? "its device has no memory for a second one, and at least " +
                                          counted(run.settings.min_workers, "worker") + " must train"
                                    : "no worker could be started in its place";
    run.out.tell(Tell::Level::kWarning, name_of(run, worker) + " stays: " + why);
  }
}

// Reports once which part of the desired state cannot be reached now, when nothing in progress could reach it.
static void tell_unmet(Run& run, const SwapDecision& decision, std::uint32_t want) {
  const bool will_ask = !run.startup.hosts_known && run.roster.agents().empty();  // a run that starts again
  if (is_settling(run) || !run.startup.spawned || (decision.size() == 0 && (will_ask || asks_hosts(run)))) return;
  if (decision.makes_room) return;
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
