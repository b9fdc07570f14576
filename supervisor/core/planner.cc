#include "supervisor/core/planner.h"

#include <algorithm>

#include "supervisor/core/change.h"
#include "supervisor/core/desired_state.h"
#include "supervisor/core/host_health.h"
#include "supervisor/core/outbox.h"
#include "supervisor/core/settings.h"
#include "supervisor/core/startup.h"
#include "supervisor/core/text.h"
#include "supervisor/core/training.h"
#include "supervisor/core/worker_control.h"

namespace elastictrain::core {

Planner::Planner(const RunSettings& settings, const Roster& roster, const Outbox& out, const DesiredState& desired,
                 const Startup& startup, const Training& training, const Change& change, const HostHealth& health,
                 const WorkerControl& workers)
    : settings_(settings),
      roster_(roster),
      out_(out),
      desired_(desired),
      startup_(startup),
      training_(training),
      change_(change),
      health_(health),
      workers_(workers) {}

std::uint32_t Planner::size_limit() const {
  return std::max(heuristics::max_workers(settings_.batch), settings_.min_workers);
}

std::uint32_t Planner::target_size_of() const {
  if (desired_.hold) return static_cast<std::uint32_t>(training_.members.size());
  if (startup_.is_plain()) return startup_.first_size - startup_.plain_finished;
  const std::uint32_t size = std::min(asked_size(), size_limit());
  return desired_.refused ? std::min(size, desired_.refused->size) : size;
}

std::uint32_t Planner::asked_size() const {
  return settings_.leased ? std::min(desired_.target, desired_.lease.slots) : desired_.target;
}

bool Planner::displaced(const Worker& worker) const {
  const Agent* agent = roster_.agent(worker.agent);
  return !agent->usable() || !agent->may_use(worker.slot);
}

bool Planner::gives_back(const Worker& worker) const {
  const Agent& agent = *roster_.agent(worker.agent);
  const bool can_wait = agent.link == Link::kUp && !agent.drain && !agent.stopping;
  return displaced(worker) && !(settings_.leased && desired_.lease.moves && can_wait);
}

// A recovery in the middle of a replacement leaves both workers in one slot: the older one leaves.
bool Planner::yields_slot(const Worker& worker) const {
  const std::vector<WorkerId> occupants = roster_.occupants(worker.place());
  return std::any_of(occupants.begin(), occupants.end(),
                     [&](WorkerId other) { return other > worker.id && training_.is_member(other); });
}

CurrentMember Planner::current_member(WorkerId id) const {
  const Worker& worker = *roster_.worker(id);
  CurrentMember member{id, worker.place()};
  if (desired_.hold) return member;
  member.leads = worker.may_lead;
  member.displaced = gives_back(worker) || yields_slot(worker);
  member.replaced = desired_.replacements.contains(id) || displaced(worker);
  member.can_overlap = !displaced(worker) && roster_.occupants(member.place).size() == 1 &&
                       !roster_.is_blamed(member.place) && roster_.agent(worker.agent)->reachable();
  return member;
}

// Workers that could join: those of the plan first, so that a plan is not rebuilt without need; then the ready ones.
std::vector<Candidate> Planner::candidates() const {
  const std::set<WorkerId> planned(change_.members.begin(), change_.members.end());
  const std::set<std::string> avoided = avoided_hosts();
  std::vector<Candidate> list;
  for (const auto& [id, worker] : roster_.workers()) {
    if (worker.dying() || worker.finished() || training_.is_member(id) || displaced(worker)) continue;
    bool shared = false;
    bool blocked = false;
    for (WorkerId other : roster_.occupants(worker.place())) {
      if (other == id) continue;
      shared = true;
      blocked = blocked || !desired_.replacements.contains(other);
    }
    if (blocked) continue;
    const bool fixed = change_.stage == Stage::kPreparing && planned.contains(id);
    list.push_back({id, worker.place(), !shared, !fixed && avoided.contains(worker.host)});
  }
  std::stable_sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
    const bool fixed = change_.stage == Stage::kPreparing;
    const auto rank = [&](const Candidate& c) {
      if (fixed && planned.contains(c.worker)) return 0;
      if (roster_.worker(c.worker)->ready()) return 1;
      return planned.contains(c.worker) ? 2 : 3;
    };
    return rank(a) < rank(b);
  });
  return list;
}

std::set<std::string> Planner::avoided_hosts() const {
  std::set<std::string> hosts;
  for (const auto& [id, kind] : desired_.replacements) {
    if (kind == protocol::ChangeKind::kMigrate) hosts.insert(roster_.worker(id)->host);
  }
  return hosts;
}

// Slots whose process is warm come first: it joins at once. Then hosts that have workers of this run: those share
// memory, and each further host adds network traffic.
std::vector<Place> Planner::free_places() const {
  std::vector<const Agent*> agents = roster_.agents_in_order();
  std::stable_partition(agents.begin(), agents.end(), [](const Agent* agent) { return !agent->workers.empty(); });
  const std::set<std::string> avoided = avoided_hosts();
  std::vector<Place> preferred;
  std::vector<Place> others;
  std::vector<Place> doubtful;
  for (const Agent* agent : agents) {
    if (!agent->reachable()) continue;
    std::set<std::uint32_t> taken;
    for (WorkerId id : agent->workers) taken.insert(roster_.worker(id)->slot);
    auto& list = !health_.usable(agent->host, out_.now()) ? doubtful
                 : avoided.contains(agent->host)          ? others
                                                          : preferred;
    for (std::uint32_t slot = 0; slot < agent->slots; ++slot) {
      const Place place{agent->id, slot};
      if (!agent->may_use(slot) || taken.contains(slot) || roster_.rests(place, out_.now())) continue;
      (roster_.is_blamed(place) ? doubtful : list).push_back(place);
    }
  }
  std::stable_partition(preferred.begin(), preferred.end(),
                        [this](Place place) { return roster_.warm_process(place) != nullptr; });
  preferred.insert(preferred.end(), others.begin(), others.end());
  // A doubtful host or slot is better than none.
  const std::size_t others_can_train = roster_.workers().size() + preferred.size();
  if (others_can_train < settings_.min_workers) preferred.insert(preferred.end(), doubtful.begin(), doubtful.end());
  return preferred;
}

SwapInput Planner::swap_input() const {
  SwapInput input;
  for (WorkerId id : training_.members) input.members.push_back(current_member(id));
  std::stable_partition(input.members.begin(), input.members.end(), [](const auto& member) { return member.leads; });
  input.candidates = candidates();
  input.free = free_places();
  input.want = target_size_of();
  input.min = settings_.min_workers;
  // A plain program would not understand that its extra processes are meant to wait.
  input.spares = startup_.elastic ? settings_.spares : 0;
  return input;
}

// Slots may still become free, or hosts answer, without a new request.
bool Planner::settling() const {
  if (roster_.any_launching()) return true;
  return std::any_of(roster_.workers().begin(), roster_.workers().end(),
                     [&](const auto& entry) { return entry.second.dying() && !displaced(entry.second); });
}

// A plan is not begun while a worker that must answer cannot be reached.
bool Planner::all_reachable(const std::vector<WorkerId>& next) const {
  const auto cut_off = [&](WorkerId id) {
    const Worker* worker = roster_.worker(id);
    return worker != nullptr && roster_.agent(worker->agent)->cut_off;
  };
  return std::none_of(training_.members.begin(), training_.members.end(), cut_off) &&
         std::none_of(next.begin(), next.end(), cut_off);
}

bool Planner::same_plan(const SwapDecision& decision) const {
  if (change_.stage == Stage::kIdle || !decision.start.empty()) return false;
  std::vector<WorkerId> next = decision.stay;
  std::vector<WorkerId> joiners = decision.join;
  std::sort(joiners.begin(), joiners.end());
  next.insert(next.end(), joiners.begin(), joiners.end());
  return next == change_.members;
}

const std::string& Planner::size_reason() const {
  return settings_.leased && desired_.lease.slots <= desired_.target ? desired_.lease.reason : desired_.target_reason;
}

ChangeDescription Planner::describe(const SwapDecision& decision, std::size_t next_size) const {
  using protocol::ChangeKind;
  ChangeDescription found;
  const std::size_t size = training_.members.size();
  const std::string sizes = "from " + std::to_string(size) + " to " + std::to_string(next_size);
  if (training_.generation == 0) {
    found.kind = ChangeKind::kStart;
    found.reason = (training_.restarting ? "start again with " : "start with ") + counted(next_size, "worker");
    return found;
  }
  std::set<std::string> drained;
  std::string replaced;
  ChangeKind replace_kind = ChangeKind::kReplace;
  std::vector<WorkerId> going = decision.leave;
  if (decision.bridge) going.push_back(*decision.bridge);
  for (WorkerId id : going) {
    const Worker& worker = *roster_.worker(id);
    if (displaced(worker)) drained.insert(worker.host);
    const auto proposal = desired_.replacements.find(id);
    if (proposal == desired_.replacements.end()) continue;
    replaced += (replaced.empty() ? "" : ", ") + workers_.name_of(worker);
    if (proposal->second == ChangeKind::kMigrate) replace_kind = ChangeKind::kMigrate;
  }
  if (!drained.empty() && settings_.leased) {
    found.kind = next_size < size ? ChangeKind::kShrink : next_size > size ? ChangeKind::kGrow : ChangeKind::kMigrate;
    found.reason = desired_.lease.moves ? "exchange slots of" : "give back slots of";
    for (const std::string& host : drained) found.reason += " " + host;
    if (next_size != size) found.reason += ", " + sizes + " workers";
    found.reason += ": " + desired_.lease.reason;
  } else if (!drained.empty()) {
    found.kind = ChangeKind::kDrain;
    found.reason = "leave";
    for (const std::string& host : drained) found.reason += " " + host;
    if (next_size != size) found.reason += ", " + sizes + " workers";
  } else if (!replaced.empty()) {
    found.kind = replace_kind;
    found.reason = (replace_kind == ChangeKind::kMigrate ? "move " : "replace ") + replaced;
    if (next_size != size) found.reason += ", " + sizes + " workers";
  } else if (next_size == size && !decision.stay.empty() && decision.stay.front() != training_.members.front()) {
    found.kind = ChangeKind::kUpdatePlan;
    found.reason = workers_.name_of(*roster_.worker(decision.stay.front())) + " was started as rank 0, and gets it";
  } else if (next_size == size && !desired_.update_reason.empty()) {
    found.kind = ChangeKind::kUpdatePlan;
    found.reason = desired_.update_reason;
  } else {
    found.kind = next_size > size ? ChangeKind::kGrow : ChangeKind::kShrink;
    const bool again = next_size > size && next_size <= training_.size_before_loss;
    found.reason = (next_size > size ? "grow " : "shrink ") + sizes +
                   " workers: " + (again ? "in place of those that were lost" : size_reason());
  }
  if (decision.bridge) found.reason += "; rank 0 stays until the next change, to send its state";
  return found;
}

std::string Planner::unmet_text(const SwapDecision& decision, std::uint32_t want) const {
  std::string text;
  const std::uint32_t asked = desired_.hold || !startup_.elastic ? want : asked_size();
  if (decision.size() < want) {
    text = counted(asked, "worker") + (asked == 1 ? " is" : " are") + " requested and ";
    if (settings_.leased) text = "the cluster leases " + counted(desired_.lease.slots, "slot") + ", and ";
    text += std::to_string(decision.size()) + " can train: no other slot is free";
    const std::size_t blamed = roster_.blamed_slots();
    for (const HostHealth::Cooled& host : health_.cooled(out_.now())) {
      text += ", host " + host.host + " failed " + counted(host.failures, "time") + " and is not used for a while";
    }
    for (const Agent* agent : roster_.agents_in_order()) {
      if (agent->drain && agent->offered && !agent->noticed) text += ", host " + agent->host + " is drained";
    }
    if (blamed > 0) text += ", and in " + counted(blamed, "slot") + " new workers failed";
    text += settings_.leased ? ". The rest follows when their hosts answer."
                             : ". The rest follows when hosts appear or you repeat the request.";
  } else if (want < asked && desired_.refused && want == desired_.refused->size) {
    text = counted(asked, "worker") + (asked == 1 ? " is" : " are") + " requested, and " + std::to_string(want) +
           " train: grow refused: " + desired_.refused->reason + ". `elastictrain resize` tries it again.";
  } else if (want < asked) {
    text =
        counted(asked, "worker") + " are requested, but the limit of the global batch allows " + std::to_string(want);
  }
  for (WorkerId id : decision.held) {
    text += (text.empty() ? "" : " ") + workers_.name_of(*roster_.worker(id)) +
            " stays although its host goes away: at least " + counted(settings_.min_workers, "worker") + " must train.";
  }
  return text;
}

}  // namespace elastictrain::core
