// Max-min fairness in slots. `max-min`: whole slots; the job with the fewest gets the next one, ties go to the earlier
// job; with more jobs than slots the earliest get one each, or, with time
// slices, all in turn. `max-min-fluid`: real numbers of slots, equal up to what
// each job can use; a bound for comparison that no cluster can run.
#include <algorithm>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policies.h"
#include "heuristics/sharing/turns.h"

namespace elastictrain::heuristics::sharing {
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

}  // namespace elastictrain::heuristics::sharing
