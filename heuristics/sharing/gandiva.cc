#include "heuristics/sharing/gandiva.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policy.h"

namespace elastictrain::heuristics::sharing {
namespace {

bool is_known(double rate) {
  return std::isfinite(rate) && rate > 0;
}

Grant grant_of(const Pairs::Pair& pair, double slots) {
  return {slots, pair.looks >= kLooks ? Why::kKept : Why::kTried, pair.together, pair.host, pair.looks};
}

}  // namespace

std::uint32_t Pairs::losses_of(std::uint64_t job) const {
  const auto found = losses_.find(job);
  return found == losses_.end() ? 0 : found->second;
}

void Pairs::list_guests() {
  guests_.clear();
  hosts_.clear();
  for (const Pair& pair : pairs_) {
    guests_.insert(pair.guest);
    hosts_.insert(pair.host);
  }
}

void Pairs::forget_gone() {
  const auto is_gone = [this](std::uint64_t job) { return !place_.contains(job); };
  std::erase_if(lost_, [&](const Key& pair) { return is_gone(pair.first) || is_gone(pair.second); });
  std::erase_if(losses_, [&](const auto& entry) { return is_gone(entry.first); });
  std::erase_if(pairs_, [&](const Pair& pair) { return is_gone(pair.host) || is_gone(pair.guest); });
}

// The caller remembers pairs that were made before this state was.
void Pairs::take_up(const View& view) {
  for (const JobView& job : view.jobs) {
    const bool known = guests_.contains(job.id) || hosts_.contains(job.id) || hosts_.contains(job.beside);
    if (job.beside == kNoJob || known || !place_.contains(job.beside)) continue;
    pairs_.push_back({.host = job.beside, .guest = job.id, .granted = true});
    list_guests();
  }
}

void Pairs::undo(const Pair& pair) {
  lost_.insert(std::minmax(pair.host, pair.guest));
  ++losses_[pair.host];
  ++losses_[pair.guest];
  undone_.push_back({pair, place_.at(pair.host), place_.at(pair.guest)});
}

Pairs::Verdict Pairs::judge(const View& view, Pair& pair) {
  const JobView& host = view.jobs[place_.at(pair.host)];
  const JobView& guest = view.jobs[place_.at(pair.guest)];
  if (host.held == 0) return Verdict::kStays;
  const bool assigned = guest.beside == pair.host;
  if (!assigned && pair.granted) return pair.assigned ? Verdict::kParts : Verdict::kLoses;
  if (!assigned) return Verdict::kStays;
  pair.assigned = true;
  const bool measured = is_known(host.packed_rate) && is_known(guest.packed_rate) && is_known(host.alone_rate) &&
                        is_known(guest.alone_rate);
  const bool enough =
      host.packed_views >= pair.host_views + kLookViews && guest.packed_views >= pair.guest_views + kLookViews;
  if (!measured || !enough) return Verdict::kStays;
  pair.host_views = host.packed_views;
  pair.guest_views = guest.packed_views;
  pair.together = host.packed_rate / host.alone_rate + guest.packed_rate / guest.alone_rate;
  pair.losses = pair.together < 1 ? pair.losses + 1 : 0;
  ++pair.looks;
  return pair.losses < kLosses ? Verdict::kStays : Verdict::kLoses;
}

void Pairs::look(const View& view) {
  undone_.clear();
  place_.clear();
  for (std::uint32_t place = 0; place < view.jobs.size(); ++place) place_[view.jobs[place].id] = place;
  forget_gone();
  list_guests();
  take_up(view);
  std::erase_if(pairs_, [&](Pair& pair) {
    const Verdict verdict = judge(view, pair);
    if (verdict == Verdict::kLoses) undo(pair);
    return verdict != Verdict::kStays;
  });
  list_guests();
}

void Pairs::grant(const View& view, bool waiting, std::uint32_t& free, Decision& decision) {
  std::erase_if(pairs_, [&](Pair& pair) {
    const std::uint32_t guest = place_.at(pair.guest);
    const double slots = decision.grants[place_.at(pair.host)].slots;
    const std::uint32_t wanted = view.jobs[guest].requested;
    pair.granted = slots == wanted;
    if (pair.granted && !waiting && free >= wanted) {
      decision.grants[guest] = {slots, Why::kFits, 0};
      free -= wanted;
      return true;
    }
    if (pair.granted) decision.grants[guest] = grant_of(pair, slots);
    return false;
  });
  list_guests();
}

bool Pairs::may_be_tried(const JobView& job) const {
  return job.packs && is_known(job.alone_rate) && losses_of(job.id) < kTries;
}

// Jobs that keep their slots and could have a guest there.
std::vector<std::uint32_t> Pairs::open_hosts(const View& view, const std::vector<std::uint32_t>& order,
                                             const Decision& decision) const {
  std::vector<std::uint32_t> hosts;
  for (const std::uint32_t place : order) {
    const JobView& job = view.jobs[place];
    const bool keeps = job.held > 0 && decision.grants[place].slots == job.held && job.held == job.requested;
    const bool paired = hosts_.contains(job.id) || guests_.contains(job.id);
    if (keeps && may_be_tried(job) && !paired) hosts.push_back(place);
  }
  return hosts;
}

// The end if there is none.
std::vector<std::uint32_t>::iterator Pairs::best_host(const View& view, const JobView& guest,
                                                      std::vector<std::uint32_t>& hosts) const {
  auto best = hosts.end();
  for (auto host = hosts.begin(); host != hosts.end(); ++host) {
    const JobView& job = view.jobs[*host];
    const bool within_reach = !guest.only_beside || *guest.only_beside == job.id;
    if (job.requested != guest.requested || !within_reach || has_lost(guest.id, job.id)) continue;
    if (best == hosts.end() || losses_of(job.id) < losses_of(view.jobs[*best].id)) best = host;
  }
  return best;
}

void Pairs::add(const View& view, const std::vector<std::uint32_t>& order, Decision& decision) {
  std::vector<std::uint32_t> hosts = open_hosts(view, order, decision);
  for (const std::uint32_t place : order) {
    const JobView& job = view.jobs[place];
    const bool waits = decision.grants[place].slots == 0 && job.held == 0;
    const bool paired = guests_.contains(job.id) || hosts_.contains(job.id);
    if (!waits || !may_be_tried(job) || paired) continue;
    const auto host = best_host(view, job, hosts);
    if (host == hosts.end()) continue;
    pairs_.push_back({.host = view.jobs[*host].id, .guest = job.id, .granted = true});
    hosts_.insert(pairs_.back().host);
    guests_.insert(job.id);
    decision.grants[place] = grant_of(pairs_.back(), job.requested);
    hosts.erase(host);
  }
}

void Pairs::explain(Decision& decision) const {
  for (const Undone& undone : undone_) {
    for (const std::uint32_t place : {undone.guest, undone.host}) {
      Grant& grant = decision.grants[place];
      if (grant.slots > 0 || undone.pair.together == 0) continue;
      grant = {0, Why::kUndone, undone.pair.together, kNoJob, undone.pair.looks};
      break;
    }
  }
}

// Gandiva (OSDI'18) without hosts: jobs run at the size that they ask for, in time slices. Those that fit run;
// at the end of a slice the jobs that ran go to the tail of the queue. While nobody waits, idle slots are lent to
// running jobs, up to the slots of one server (8), the smallest first; an arrival takes them back at once. With
// Settings::packs a job that waits may share the slots of one that runs, where both together then do more;
// a pair takes its turns together. Migration and the choice of hosts need hosts, which a pool of slots has not.
namespace {

constexpr std::uint32_t kServerSlots = 8;
constexpr double kLooksInSlice = 4;

struct Rotation final : State {
  std::unordered_map<std::uint64_t, std::uint64_t> tickets;  // by job: the smallest goes first
  std::uint64_t next = 0;
  double slice_end_s = 0;
  Pairs pairs;
  std::unique_ptr<State> clone() const override { return std::make_unique<Rotation>(*this); }
};

class Gandiva final : public SharingPolicy {
 public:
  Gandiva(double slice_s, bool packs) : slice_s_(slice_s), packs_(packs) {}
  std::unique_ptr<State> initial_state() const override { return std::make_unique<Rotation>(); }

  void decide(const View& view, State& state, Rng&, Decision& decision) const override {
    auto& rotation = static_cast<Rotation&>(state);
    for (const EndedJob& job : view.ended) rotation.tickets.erase(job.id);
    const bool new_slice = view.now_s >= rotation.slice_end_s;
    if (new_slice) rotation.slice_end_s = view.now_s + slice_s_;
    Pairs& pairs = rotation.pairs;
    if (packs_) pairs.look(view);
    const auto order = order_of(view, rotation, new_slice);
    std::uint32_t free = view.slots;
    bool waiting = false;
    for (const std::uint32_t place : order) {
      if (pairs.is_guest(view.jobs[place].id)) continue;
      const std::uint32_t size = std::min(view.jobs[place].requested, most_slots(view, view.jobs[place]));
      waiting = waiting || size > free;
      if (size > free) continue;
      decision.grants[place] = {static_cast<double>(size), Why::kTurn, rotation.slice_end_s};
      free -= size;
    }
    if (packs_) pack(view, order, waiting, free, pairs, decision);
    if (waiting) decision.again_s = rotation.slice_end_s;
    if (packs_ && (waiting || pairs.any())) {
      decision.again_s = std::min(decision.again_s, view.now_s + slice_s_ / kLooksInSlice);
    }
    if (!waiting && !pairs.any()) lend(view, free, decision);
  }

 private:
  // `waiting`: somebody does, at first without guests, in the end with pairs that were made for them.
  static void pack(const View& view, const std::vector<std::uint32_t>& order, bool& waiting, std::uint32_t& free,
                   Pairs& pairs, Decision& decision) {
    pairs.grant(view, waiting, free, decision);
    if (waiting) pairs.add(view, order, decision);
    pairs.explain(decision);
    waiting = std::any_of(decision.grants.begin(), decision.grants.end(),
                          [](const Grant& grant) { return grant.slots == 0; });
  }

  // In a new slice those that ran go behind the others; within one they stay.
  static std::vector<std::uint32_t> order_of(const View& view, Rotation& rotation, bool new_slice) {
    std::vector<std::uint32_t> order(view.jobs.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) {
      order[place] = place;
      const JobView& job = view.jobs[place];
      const bool is_new = rotation.tickets.try_emplace(job.id, rotation.next).second;
      if (is_new) ++rotation.next;
    }
    const auto ticket = [&](std::uint32_t place) { return rotation.tickets.at(view.jobs[place].id); };
    const auto first = [&](std::uint32_t a, std::uint32_t b) {
      const bool a_runs = view.jobs[a].held > 0, b_runs = view.jobs[b].held > 0;
      return a_runs != b_runs ? a_runs != new_slice : ticket(a) < ticket(b);
    };
    std::sort(order.begin(), order.end(), first);
    for (const std::uint32_t place : order) {
      if (new_slice && view.jobs[place].held > 0) rotation.tickets[view.jobs[place].id] = rotation.next++;
    }
    return order;
  }

  static void lend(const View& view, std::uint32_t free, Decision& decision) {
    FirstOf order;
    const auto most = [&](std::uint32_t place) { return std::min(most_slots(view, view.jobs[place]), kServerSlots); };
    for (std::uint32_t place = 0; place < view.jobs.size(); ++place) {
      if (decision.grants[place].slots < most(place)) order.add(decision.grants[place].slots, place);
    }
    order.order();
    for (; free > 0 && !order.empty(); --free) {
      const std::uint32_t place = order.first().place;
      const double slots = ++decision.grants[place].slots;
      if (slots < most(place)) {
        order.change_first(slots);
      } else {
        order.take_first();
      }
    }
  }

  double slice_s_;
  bool packs_;
};

}  // namespace

std::unique_ptr<SharingPolicy> make_gandiva(double slice_s, bool packs) {
  return std::make_unique<Gandiva>(slice_s, packs);
}

}  // namespace elastictrain::heuristics::sharing
