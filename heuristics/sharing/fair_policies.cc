#include "heuristics/sharing/fair_policies.h"

#include <algorithm>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policy.h"

namespace elastictrain::heuristics::sharing {

namespace {

// A grant is not a turn yet: where slots cannot pass on at once somebody else may have had it.
void count_turns(const View& view, Turns& turns) {
  for (const JobView& job : view.jobs) {
    Turns::Turn& turn = turns.of[job.id];
    if (job.held > 0 && !turn.counted) ++turn.had;
    if (job.held > 0) turn.counted = true;
  }
}

}  // namespace

std::uint32_t share_by_turns(const View& view, Turns& turns, std::vector<std::uint32_t>& shares) {
  count_turns(view, turns);
  std::uint32_t free = view.slots;
  std::vector<std::uint32_t> others;
  for (std::uint32_t place = 0; place < shares.size(); ++place) {
    const JobView& job = view.jobs[place];
    if (job.held > 0 && view.now_s < turns.of[job.id].until_s && job.held <= free) {
      shares[place] = static_cast<std::uint32_t>(job.held);
      free -= shares[place];
    } else {
      others.push_back(place);
    }
  }
  const auto key = [&](std::uint32_t place) {
    return std::pair(turns.of[view.jobs[place].id].had, view.jobs[place].first_start_s);
  };
  std::stable_sort(others.begin(), others.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  for (std::size_t i = 0; i < others.size() && free > 0; ++i, --free) shares[others[i]] = 1;
  return free;
}

void start_turns(const View& view, const std::vector<std::uint32_t>& shares, double slice_s, Turns& turns,
                 Decision& decision) {
  count_turns(view, turns);
  for (std::size_t place = 0; place < shares.size(); ++place) {
    if (shares[place] == 0) continue;
    Turns::Turn& turn = turns.of[view.jobs[place].id];
    if (view.now_s >= turn.until_s || view.jobs[place].held == 0) {
      turn.until_s = view.now_s + slice_s;
      turn.counted = false;
    }
    if (view.jobs.size() > view.slots) decision.again_s = std::min(decision.again_s, turn.until_s);
  }
}

double turn_end_s(const View& view, const Turns& turns, std::size_t place) {
  if (view.jobs.size() <= view.slots) return 0;
  const auto found = turns.of.find(view.jobs[place].id);
  return found == turns.of.end() ? 0 : found->second.until_s;
}

// Dominant resource fairness (Ghodsi et al., NSDI'11): the next slot goes to the job with the least dominant share, the
// largest of its shares of slots, CPUs and memory, if its demand still fits; ties go to the earlier job. Where only
// slots are scarce this is max-min.
namespace {

double share_of(double demand, double capacity) {
  return capacity > 0 ? demand / capacity : 0;
}

class Drf final : public SharingPolicy {
 public:
  void decide(const View& view, State&, Rng&, Decision& decision) const override {
    FirstOf order;
    for (std::uint32_t place = 0; place < view.jobs.size(); ++place) order.add(0, place);
    order.order();
    double slots = view.slots, cpus = view.cpus, memory_bytes = view.memory_bytes;
    while (!order.empty() && slots >= 1) {
      const std::uint32_t place = order.first().place;
      const JobView& job = view.jobs[place];
      Grant& grant = decision.grants[place];
      const bool fits = (view.cpus == 0 || job.cpus_per_slot <= cpus) &&
                        (view.memory_bytes == 0 || job.memory_per_slot_bytes <= memory_bytes);
      if (!fits || grant.slots >= most_slots(view, job)) {
        order.take_first();
        continue;
      }
      slots -= 1;
      cpus -= job.cpus_per_slot;
      memory_bytes -= job.memory_per_slot_bytes;
      grant = {grant.slots + 1, Why::kFair, (grant.slots + 1) * dominant_share(view, job)};
      order.change_first(grant.number);
    }
  }

 private:
  // Of one slot.
  static double dominant_share(const View& view, const JobView& job) {
    return std::max({1.0 / view.slots, share_of(job.cpus_per_slot, view.cpus),
                     share_of(job.memory_per_slot_bytes, view.memory_bytes)});
  }
};

}  // namespace

std::unique_ptr<SharingPolicy> make_drf() {
  return std::make_unique<Drf>();
}

// Max-min fairness in slots. `max-min`: whole slots; the job with the fewest gets the next one, ties go to the earlier
// job; with more jobs than slots the earliest get one each, or, with time
// slices, all in turn. `max-min-fluid`: real numbers of slots, equal up to what
// each job can use; a bound for comparison that no cluster can run.
namespace {

// The level at which equal shares, each at most the job's most, use up the slots; `fluid_rest`: what is left per job
// above the whole level, and how many jobs can take more than it.
struct Level {
  std::uint32_t whole = 0;
  std::uint32_t rest = 0;  // slots left when all jobs have min(most, whole)
  std::uint32_t open = 0;  // jobs that can use more than `whole`
};

Level level_of(const View& view) {
  std::vector<std::uint32_t> jobs_by_most(kMaxElasticSlots + 2);
  for (const JobView& job : view.jobs) ++jobs_by_most[most_slots(view, job)];
  Level level{0, view.slots, static_cast<std::uint32_t>(view.jobs.size()) - jobs_by_most[0]};
  while (level.open > 0 && level.rest >= level.open) {
    level.rest -= level.open;
    ++level.whole;
    level.open -= jobs_by_most[level.whole];
  }
  return level;
}

class MaxMin final : public SharingPolicy {
 public:
  explicit MaxMin(double slice_s) : slice_s_(slice_s) {}
  std::unique_ptr<State> initial_state() const override { return std::make_unique<Turns>(); }

  void decide(const View& view, State& state, Rng&, Decision& decision) const override {
    auto& turns = static_cast<Turns&>(state);
    for (const EndedJob& job : view.ended) turns.of.erase(job.id);
    if (slice_s_ > 0 && view.jobs.size() > view.slots) return by_slices(view, turns, decision);
    Level level = level_of(view);
    for (std::size_t place = 0; place < view.jobs.size(); ++place) {
      const std::uint32_t most = most_slots(view, view.jobs[place]);
      std::uint32_t slots = std::min(most, level.whole);
      if (most > level.whole && level.rest > 0) {
        ++slots;
        --level.rest;
      }
      decision.grants[place] = {static_cast<double>(slots), slots > 0 ? Why::kFair : Why::kWaits,
                                static_cast<double>(slots)};
    }
  }

 private:
  void by_slices(const View& view, Turns& turns, Decision& decision) const {
    std::vector<std::uint32_t> shares(view.jobs.size());
    share_by_turns(view, turns, shares);
    start_turns(view, shares, slice_s_, turns, decision);
    for (std::size_t place = 0; place < shares.size(); ++place) {
      decision.grants[place] = {static_cast<double>(shares[place]), shares[place] > 0 ? Why::kTurn : Why::kWaits,
                                turn_end_s(view, turns, place)};
    }
  }

  double slice_s_;
};

class MaxMinFluid final : public SharingPolicy {
 public:
  void decide(const View& view, State&, Rng&, Decision& decision) const override {
    const Level level = level_of(view);
    const double equal = level.whole + (level.open > 0 ? static_cast<double>(level.rest) / level.open : 0);
    for (std::size_t place = 0; place < view.jobs.size(); ++place) {
      const double slots = std::min<double>(most_slots(view, view.jobs[place]), equal);
      decision.grants[place] = {slots, Why::kFair, slots};
    }
  }
};

}  // namespace

std::unique_ptr<SharingPolicy> make_max_min(double slice_s) {
  return std::make_unique<MaxMin>(slice_s);
}

std::unique_ptr<SharingPolicy> make_max_min_fluid() {
  return std::make_unique<MaxMinFluid>();
}

// Themis (NSDI'20) in its centralised form (as Gavel computes it): the largest finish-time ratio is made as small as
// possible. The ratio of a job is the time from its arrival to its foreseen end over the time that it would take alone
// on an equal share of the cluster, slots / jobs. Slots go one at a time to the job with the largest ratio at its
// present share; of jobs without slots, which come first, to the one whose ratio with one slot is the largest. A job
// with a slot keeps it for a lease of 20 min before the order is looked at again; there is no auction.
namespace {

constexpr double kLease_s = 1200;
// Before all ratios of jobs that have slots.
constexpr double kWithoutSlots = 1e15;

class Themis final : public SharingPolicy {
 public:
  void decide(const View& view, State&, Rng&, Decision& decision) const override {
    if (view.jobs.empty() || grant_all_they_can_use(view, decision)) return;
    FirstOf order;
    order.reserve(view.jobs.size());
    for (std::uint32_t place = 0; place < view.jobs.size(); ++place) {
      order.add(-kWithoutSlots - ratio(view, view.jobs[place], 1), place);
    }
    order.order();
    for (std::uint32_t free = view.slots; free > 0 && !order.empty(); --free) {
      const std::uint32_t place = order.first().place;
      const JobView& job = view.jobs[place];
      const auto slots = static_cast<std::uint32_t>(decision.grants[place].slots) + 1;
      decision.grants[place] = {static_cast<double>(slots), Why::kFair, ratio(view, job, slots)};
      if (slots < most_slots(view, job)) {
        order.change_first(-decision.grants[place].number);
      } else {
        order.take_first();
      }
    }
    if (view.jobs.size() > view.slots) decision.again_s = view.now_s + kLease_s;
  }

 private:
  static double ratio(const View& view, const JobView& job, std::uint32_t slots) {
    const double equal = static_cast<double>(view.slots) / static_cast<double>(view.jobs.size());
    const double alone_s = (job.done + job.remaining) / job.curve->best_at(equal);
    const double shared_s = view.now_s - job.arrival_s + job.remaining * job.curve->inverse(slots);
    return alone_s > 0 ? shared_s / alone_s : 1;
  }
};

}  // namespace

std::unique_ptr<SharingPolicy> make_themis() {
  return std::make_unique<Themis>();
}

}  // namespace elastictrain::heuristics::sharing
