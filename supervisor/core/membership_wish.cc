// The part of the state machine that compares the desired state with the actual one and finds the next membership.
#include <algorithm>
#include <set>

#include "supervisor/core/membership_impl.h"
#include "supervisor/core/words.h"

namespace elastictrain::core {

bool Membership::Impl::is_member(WorkerId id) const {
  return member_set_.contains(id);
}

bool Membership::Impl::in_flight(WorkerId id) const {
  if (change_.stage != Stage::kCommitted) return false;
  const auto& members = change_.members;
  return std::find(members.begin(), members.end(), id) != members.end();
}

const std::vector<WorkerId>& Membership::Impl::newest_members() const {
  if (recovering() && change_.stage != Stage::kCommitted) return members_;
  const bool newer = change_.stage == Stage::kCommitted || generation_ == 0;
  return newer ? change_.members : members_;
}

std::uint32_t Membership::Impl::size_limit() const {
  return std::max(heuristics::most_workers(settings_.batch), settings_.min_workers);
}

std::uint32_t Membership::Impl::wanted_size() const {
  if (hold_) return static_cast<std::uint32_t>(members_.size());
  if (spawned_ && !elastic_) return first_size_ - plain_finished_;
  return std::min(target_, size_limit());
}

// Enough slots are there, or no more will come.
bool Membership::Impl::may_start() {
  if (generation_ != 0 || spawned_) return true;
  if (!hosts_known_) return false;
  const std::uint32_t slots = roster_.usable_slots();
  if (slots >= wanted_size()) return true;
  const bool more_may_come = !start_expired_ && (roster_.any_launching() || settings_.hosts_may_appear);
  const bool worth_waiting = !start_expired_ && (roster_.any_launching() || slots < settings_.min_workers);
  if (more_may_come && worth_waiting) return false;
  if (slots >= settings_.min_workers) return true;
  const std::string hosts = unreachable_hosts();
  fail_run(69, "the hosts offer " + counted(slots, "slot") + ", but at least " +
                   counted(settings_.min_workers, "worker") + " must start" +
                   (hosts.empty() ? "" : " (" + hosts + ")") + ". Add hosts or slots, or lower workers.min.");
  return false;
}

bool Membership::Impl::displaced(const Worker& worker) const {
  const Agent* agent = roster_.agent(worker.agent);
  return !agent->usable() || worker.slot >= agent->slots;
}

// A recovery in the middle of a replacement leaves both workers in one slot: the older one leaves.
bool Membership::Impl::yields_slot(const Worker& worker) const {
  const std::vector<WorkerId> occupants = roster_.occupants(worker.place());
  return std::any_of(occupants.begin(), occupants.end(),
                     [&](WorkerId other) { return other > worker.id && is_member(other); });
}

CurrentMember Membership::Impl::current_member(WorkerId id) const {
  const Worker& worker = *roster_.worker(id);
  CurrentMember member{id, worker.place()};
  if (hold_) return member;
  member.displaced = displaced(worker) || yields_slot(worker);
  member.replaced = to_replace_.contains(id);
  member.can_overlap = roster_.occupants(member.place).size() == 1 && !roster_.is_blamed(member.place) &&
                       roster_.agent(worker.agent)->reachable();
  return member;
}

// Workers that could join: those of the plan first, so that a plan is not rebuilt without need; then the ready ones.
std::vector<Candidate> Membership::Impl::candidates() const {
  const std::set<WorkerId> planned(change_.members.begin(), change_.members.end());
  const std::set<std::string> avoided = avoided_hosts();
  std::vector<Candidate> list;
  for (const auto& [id, worker] : roster_.workers()) {
    if (worker.dying || worker.finished || is_member(id) || displaced(worker)) continue;
    bool shared = false;
    bool blocked = false;
    for (WorkerId other : roster_.occupants(worker.place())) {
      if (other == id) continue;
      shared = true;
      blocked = blocked || !to_replace_.contains(other);
    }
    if (blocked) continue;
    const bool fixed = change_.stage == Stage::kPreparing && planned.contains(id);
    list.push_back({id, worker.place(), !shared, !fixed && avoided.contains(worker.host)});
  }
  std::stable_sort(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
    const bool fixed = change_.stage == Stage::kPreparing;
    const auto rank = [&](const Candidate& c) {
      if (fixed && planned.contains(c.worker)) return 0;
      if (roster_.worker(c.worker)->ready) return 1;
      return planned.contains(c.worker) ? 2 : 3;
    };
    return rank(a) < rank(b);
  });
  return list;
}

std::set<std::string> Membership::Impl::avoided_hosts() const {
  std::set<std::string> hosts;
  for (const auto& [id, kind] : to_replace_) {
    if (kind == protocol::ChangeKind::kMigrate) hosts.insert(roster_.worker(id)->host);
  }
  return hosts;
}

// Hosts that have workers of this run come first: those share memory, and each further host adds network traffic.
std::vector<Place> Membership::Impl::free_places() const {
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
    auto& list = !health_.usable(agent->host, now_) ? doubtful : avoided.contains(agent->host) ? others : preferred;
    for (std::uint32_t slot = 0; slot < agent->slots; ++slot) {
      const Place place{agent->id, slot};
      if (taken.contains(slot) || roster_.rests(place, now_)) continue;
      (roster_.is_blamed(place) ? doubtful : list).push_back(place);
    }
  }
  preferred.insert(preferred.end(), others.begin(), others.end());
  // A doubtful host or slot is better than none.
  const std::size_t others_can_train = roster_.workers().size() + preferred.size();
  if (others_can_train < settings_.min_workers) preferred.insert(preferred.end(), doubtful.begin(), doubtful.end());
  return preferred;
}

SwapInput Membership::Impl::swap_input() const {
  SwapInput input;
  for (WorkerId id : members_) input.members.push_back(current_member(id));
  input.candidates = candidates();
  input.free = free_places();
  input.want = wanted_size();
  input.min = settings_.min_workers;
  // A plain program would not understand that its extra processes are meant to wait.
  input.spares = elastic_ ? settings_.spares : 0;
  return input;
}

// Slots may still become free, or hosts answer, without a new request.
bool Membership::Impl::settling() const {
  if (roster_.any_launching()) return true;
  return std::any_of(roster_.workers().begin(), roster_.workers().end(),
                     [&](const auto& entry) { return entry.second.dying && !displaced(entry.second); });
}

void Membership::Impl::reconcile() {
  if (resuming_ || change_.stage == Stage::kCommitted || !may_start()) return;
  const std::uint32_t want = wanted_size();
  if (spawned_ && !elastic_ && want == 0) {
    begin_end(EndMode::kFinishing, 0, "all processes of the program exited");
    return;
  }
  const SwapInput input = swap_input();
  dismiss_misplaced(input.candidates);
  const SwapDecision decision = decide_swap(input);
  const bool same = same_plan(decision);
  if (change_.stage == Stage::kPreparing && !same) cancel_change("a newer plan takes its place");
  const std::vector<WorkerId> next = carry_out(decision);
  if (restarting_ && next.size() < settings_.min_workers && min_timer_ == 0) {
    min_timer_ = arm({TimerKind::kWaitForMin, {}, {}}, now_ + settings_.failures.wait_for_min);
  }
  if (generation_ == 0 && !restarting_ && next.size() + plain_finished_ < settings_.min_workers && !settling()) {
    fail_run(69, "only " + counted(next.size(), "worker") + " can start, but at least " +
                     std::to_string(settings_.min_workers) + " must. See the messages above for the others.");
    return;
  }
  tell_unmet(decision, want);
  if (change_.stage == Stage::kPreparing) return;
  if (next == members_ && reshare_.empty()) {
    cancel(change_.timer);
    change_ = Change{};
    return;
  }
  if (!same) {
    cancel(change_.timer);
    change_ = Change{};
    change_.members = next;
  }
  change_.stage = Stage::kGathering;
  change_.leavers = decision.leave;
  change_.not_ready = static_cast<std::size_t>(
      std::count_if(next.begin(), next.end(), [&](WorkerId id) { return !roster_.worker(id)->ready; }));
  describe(decision, next.size());
  const bool may_begin =
      elastic_ && next.size() >= (generation_ == 0 ? settings_.min_workers : 1U) && all_reachable(next);
  if (change_.not_ready == 0 && !change_.retrying && may_begin) prepare();
}

// A plan is not begun while a worker that must answer cannot be reached.
bool Membership::Impl::all_reachable(const std::vector<WorkerId>& next) const {
  const auto cut_off = [&](WorkerId id) {
    const Worker* worker = roster_.worker(id);
    return worker != nullptr && roster_.agent(worker->agent)->cut_off;
  };
  return std::none_of(members_.begin(), members_.end(), cut_off) && std::none_of(next.begin(), next.end(), cut_off);
}

// Workers in no generation whose host or slot goes away, or whose slot's member stays after all.
void Membership::Impl::dismiss_misplaced(const std::vector<Candidate>& candidates) {
  std::set<WorkerId> useful;
  for (const Candidate& candidate : candidates) useful.insert(candidate.worker);
  for (auto& [id, worker] : roster_.workers()) {
    if (is_member(id) || useful.contains(id) || worker.dying) continue;
    const bool planned = std::find(change_.members.begin(), change_.members.end(), id) != change_.members.end();
    if (planned && change_.stage == Stage::kPreparing) cancel_change("a newer plan takes its place");
    dismiss(worker, "its slot must not be used any more");
  }
}

bool Membership::Impl::same_plan(const SwapDecision& decision) const {
  if (change_.stage == Stage::kIdle || !decision.start.empty()) return false;
  std::vector<WorkerId> next = decision.stay;
  std::vector<WorkerId> joiners = decision.join;
  std::sort(joiners.begin(), joiners.end());
  next.insert(next.end(), joiners.begin(), joiners.end());
  return next == change_.members;
}

// Starts and dismisses workers; returns the members of the next generation in rank order.
std::vector<WorkerId> Membership::Impl::carry_out(const SwapDecision& decision) {
  for (WorkerId id : decision.dismiss) dismiss(*roster_.worker(id), "not needed");
  std::vector<WorkerId> joiners = decision.join;
  std::vector<WorkerId> fresh;
  for (Place place : decision.start) fresh.push_back(roster_.add_worker(place).id);
  joiners.insert(joiners.end(), fresh.begin(), fresh.end());
  std::sort(joiners.begin(), joiners.end());  // the oldest worker has the lowest rank
  std::vector<WorkerId> next = decision.stay;
  next.insert(next.end(), joiners.begin(), joiners.end());
  for (Place place : decision.start_spare) fresh.push_back(roster_.add_worker(place).id);
  if (!fresh.empty()) start_workers(next, fresh);
  if (generation_ == 0 && !spawned_ && !next.empty()) {
    spawned_ = true;
    spawned_at_ = now_;
    first_size_ = static_cast<std::uint32_t>(next.size());
    cancel(start_timer_);
  }
  return next;
}

void Membership::Impl::describe(const SwapDecision& decision, std::size_t next_size) {
  using protocol::ChangeKind;
  const std::size_t size = members_.size();
  const std::string sizes = "from " + std::to_string(size) + " to " + std::to_string(next_size);
  if (generation_ == 0) {
    change_.kind = ChangeKind::kStart;
    change_.reason = (restarting_ ? "start again with " : "start with ") + counted(next_size, "worker");
    return;
  }
  std::set<std::string> drained;
  std::string replaced;
  ChangeKind replace_kind = ChangeKind::kReplace;
  std::vector<WorkerId> going = decision.leave;
  if (decision.bridge) going.push_back(*decision.bridge);
  for (WorkerId id : going) {
    const Worker& worker = *roster_.worker(id);
    if (displaced(worker)) drained.insert(worker.host);
    const auto wish = to_replace_.find(id);
    if (wish == to_replace_.end()) continue;
    replaced += (replaced.empty() ? "" : ", ") + name_of(worker);
    if (wish->second == ChangeKind::kMigrate) replace_kind = ChangeKind::kMigrate;
  }
  if (!drained.empty()) {
    change_.kind = ChangeKind::kDrain;
    change_.reason = "leave";
    for (const std::string& host : drained) change_.reason += " " + host;
    if (next_size != size) change_.reason += ", " + sizes + " workers";
  } else if (!replaced.empty()) {
    change_.kind = replace_kind;
    change_.reason = (replace_kind == ChangeKind::kMigrate ? "move " : "replace ") + replaced;
    if (next_size != size) change_.reason += ", " + sizes + " workers";
  } else if (next_size == size && !reshare_.empty()) {
    change_.kind = ChangeKind::kReshare;
    change_.reason = reshare_;
  } else {
    change_.kind = next_size > size ? ChangeKind::kGrow : ChangeKind::kShrink;
    const bool again = next_size > size && next_size <= size_before_loss_;
    change_.reason = (next_size > size ? "grow " : "shrink ") + sizes +
                     " workers: " + (again ? "in place of those that were lost" : target_reason_);
  }
  if (decision.bridge) change_.reason += "; rank 0 stays until the next change, to send its state";
}

// Reports once which part of the desired state cannot be reached now, when nothing in progress could reach it.
void Membership::Impl::tell_unmet(const SwapDecision& decision, std::uint32_t want) {
  if (settling() || !spawned_) return;
  give_up_replacements(decision);
  const std::string text = unmet_text(decision, want);
  if (text == unmet_told_) return;
  unmet_told_ = text;
  if (text.empty()) return;
  journal(record::TargetUnmet{target_, decision.size(), text});
  tell(Tell::Level::kWarning, text);
}

std::string Membership::Impl::unmet_text(const SwapDecision& decision, std::uint32_t want) const {
  std::string text;
  const std::uint32_t asked = hold_ || !elastic_ ? want : target_;
  if (decision.size() < want) {
    text = counted(asked, "worker") + (asked == 1 ? " is" : " are") + " requested and " +
           std::to_string(decision.size()) + " can train: no other slot is free";
    const std::size_t blamed = roster_.blamed_slots();
    for (const HostHealth::Cooled& host : health_.cooled(now_)) {
      text += ", host " + host.host + " failed " + counted(host.failures, "time") + " and is not used for a while";
    }
    if (blamed > 0) text += ", and in " + counted(blamed, "slot") + " new workers failed";
    text += ". The rest follows when hosts appear or you repeat the request.";
  } else if (want < asked) {
    text =
        counted(asked, "worker") + " are requested, but the limit of the global batch allows " + std::to_string(want);
  }
  for (WorkerId id : decision.held) {
    text += (text.empty() ? "" : " ") + name_of(*roster_.worker(id)) + " stays although its host goes away: at least " +
            counted(settings_.min_workers, "worker") + " must train.";
  }
  return text;
}

void Membership::Impl::give_up_replacements(const SwapDecision& decision) {
  for (WorkerId id : decision.stay) {
    if (id == decision.bridge || to_replace_.erase(id) == 0) continue;
    journal(record::ReplaceGivenUp{id});
    tell(Tell::Level::kWarning, name_of(*roster_.worker(id)) + " stays: no worker could be started in its place");
  }
}

}  // namespace elastictrain::core
