#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policy.h"

// Optimus (EuroSys'18) for slots: the next slot goes to the job whose time to the end it shortens most; a job without
// slots gains infinitely, ties go to the earlier job. It stops where no job gains. The paper damps the gain of a job
// that has just begun, whose length is not known well, by 0.95; its published code does not.

namespace elastictrain::heuristics::sharing {
namespace {

class Optimus final : public SharingPolicy {
 public:
  explicit Optimus(const OptimusOptions& options) : options_(options) {}

  void decide(const View& view, State&, Rng&, Decision& decision) const override {
    FirstOf order;
    order.reserve(view.jobs.size());
    for (std::uint32_t place = 0; place < view.jobs.size(); ++place) order.add(-gain(view, view.jobs[place], 0), place);
    order.order();
    for (std::uint32_t free = view.slots; free > 0 && !order.empty() && order.first().key < 0; --free) {
      const std::uint32_t place = order.first().place;
      Grant& grant = decision.grants[place];
      grant = {grant.slots + 1, Why::kGain, -order.first().key};
      order.change_first(-gain(view, view.jobs[place], static_cast<std::uint32_t>(grant.slots)));
    }
  }

 private:
  // Seconds that one more slot saves.
  double gain(const View& view, const JobView& job, std::uint32_t slots) const {
    if (slots >= most_slots(view, job)) return 0;
    if (slots == 0) return kNever;
    const double saved_s = job.remaining * (job.curve->inverse(slots) - job.curve->inverse(slots + 1));
    return job.running_s < options_.young_s ? options_.young_factor * saved_s : saved_s;
  }

  OptimusOptions options_;
};

}  // namespace

std::unique_ptr<SharingPolicy> make_optimus(const OptimusOptions& options) {
  return std::make_unique<Optimus>(options);
}

// Pollux (OSDI'21): slots by goodput, the rate at which jobs learn. Its fitness as the authors' simulator computes it,
// its search replaced.
//
// Fitness: the mean of power -1 over all jobs of speedup x penalty. speedup = goodput(n) / goodput(fair share), where
// the fair share is ceil(slots / jobs). penalty, of a job whose slots change: max(0, age - 30 s x restarts) / (age + 30
// s). The mean is that of (1/4 speedup x penalty + 1e-3): a quarter because a node of 4 GPUs has speedup 1 there.
// Goodput at each size is the job's curve: what the caller gives as such (Trace jobs of Pollux's workloads have it).
// Decided anew every 60 s, and here also when a job comes or ends.
//
// Search: for slots in one pool the fitness is the best where the sum over jobs of 1 / (1/4 speedup x penalty + 1e-3)
// is the least, so each job has a cost at each size. Up to PolluxOptions::exact_up_to sums (jobs x slots x sizes) the
// least one is found exactly, job by job over all numbers of slots. Beyond that a price of a slot is found by bisection
// at which the sizes of least cost and price fit, and what is left goes to the jobs that save most per slot; a price
// cannot reach what lies inside the hull of a job's costs (its present size, mostly). Theirs is a genetic search over
// nodes, 100 generations of 100. The tests compare both with all possibilities.
namespace {

constexpr double kRound_s = 60;
constexpr double kRestart_s = 30;
constexpr double kNodeScale = 0.25;
constexpr double kFloor = 1e-3;
constexpr int kBisections = 40;

struct PolluxState final : State {
  struct Seen {
    std::uint32_t restarts = 0;
    bool present = false;
  };
  std::unordered_map<std::uint64_t, Seen> jobs;
  std::unique_ptr<State> clone() const override { return std::make_unique<PolluxState>(*this); }
};

// Of one job, by size.
struct Costs {
  std::vector<double> at;
  std::uint32_t size = 0;  // chosen

  // The least cost and price; ties: the fewest slots.
  std::uint32_t best(double price) const {
    std::uint32_t chosen = 0;
    for (std::uint32_t slots = 1; slots < at.size(); ++slots) {
      if (at[slots] + price * slots < at[chosen] + price * chosen) chosen = slots;
    }
    return chosen;
  }

  struct Step {
    double gain = 0;  // per slot
    std::uint32_t size = 0;
  };
  // That saves most per slot, with `free` more at most.
  Step next(std::uint32_t free) const {
    Step step{0, size};
    for (std::uint32_t to = size + 1; to < at.size() && to - size <= free; ++to) {
      const double gain = (at[size] - at[to]) / (to - size);
      if (gain > step.gain) step = {gain, to};
    }
    return step;
  }
};

// The least sum of costs with at most so many slots.
void choose_exactly(std::vector<Costs>& jobs, std::uint32_t slots) {
  std::vector<double> least(slots + 1), before;  // of the jobs so far, by slots
  std::vector<std::vector<std::uint8_t>> chosen;
  for (const Costs& job : jobs) {
    before.swap(least);
    least.assign(slots + 1, kNever);
    chosen.emplace_back(slots + 1);
    for (std::uint32_t all = 0; all <= slots; ++all) {
      for (std::uint32_t size = 0; size < job.at.size() && size <= all; ++size) {
        const double sum = before[all - size] + job.at[size];
        if (sum >= least[all]) continue;
        least[all] = sum;
        chosen.back()[all] = static_cast<std::uint8_t>(size);
      }
    }
  }
  std::uint32_t left = slots;
  for (std::size_t place = jobs.size(); place-- > 0; left -= jobs[place].size) jobs[place].size = chosen[place][left];
}

class Pollux final : public SharingPolicy {
 public:
  explicit Pollux(const PolluxOptions& options) : options_(options) {}

  std::unique_ptr<State> initial_state() const override { return std::make_unique<PolluxState>(); }

  void decide(const View& view, State& state, Rng&, Decision& decision) const override {
    auto& memory = static_cast<PolluxState&>(state);
    if (view.jobs.empty()) return memory.jobs.clear();
    std::vector<Costs> jobs;
    for (const JobView& job : view.jobs) jobs.push_back(costs_of(view, job, memory.jobs[job.id].restarts));
    const std::uint64_t sums = std::uint64_t{jobs.size()} * view.slots * kMaxElasticSlots;
    sums <= options_.exact_up_to ? choose_exactly(jobs, view.slots) : choose_by_price(jobs, view.slots);
    for (std::size_t place = 0; place < jobs.size(); ++place) {
      const double slots = jobs[place].size;
      decision.grants[place] = {slots, slots > 0 ? Why::kGain : Why::kWaits,
                                slots > 0 ? speedup(view, view.jobs[place], jobs[place].size) : 0};
    }
    remember(view, decision, memory);
    decision.again_s = view.now_s + kRound_s;
  }

 private:
  static double speedup(const View& view, const JobView& job, std::uint32_t slots) {
    const double fair = std::ceil(static_cast<double>(view.slots) / static_cast<double>(view.jobs.size()));
    const auto cap = static_cast<double>(job.curve->cap());
    return job.curve->best_at(slots) / job.curve->best_at(std::min(fair, cap));
  }

  static Costs costs_of(const View& view, const JobView& job, std::uint32_t restarts) {
    const double age_s = view.now_s - job.arrival_s;
    const double penalty = std::max(0.0, age_s - restarts * kRestart_s) / (age_s + kRestart_s);
    Costs costs;
    for (std::uint32_t size = 0; size <= most_slots(view, job); ++size) {
      const double kept = size == static_cast<std::uint32_t>(job.held) || !job.started() ? 1 : penalty;
      costs.at.push_back(1 / (kNodeScale * kept * speedup(view, job, size) + kFloor));
    }
    return costs;
  }

  static std::uint64_t choose_at(std::vector<Costs>& jobs, double price) {
    std::uint64_t sum = 0;
    for (Costs& job : jobs) sum += job.size = job.best(price);
    return sum;
  }

  static void choose_by_price(std::vector<Costs>& jobs, std::uint32_t slots) {
    if (choose_at(jobs, 0) <= slots) return;
    double low = 0, high = 1 / kFloor;  // at which nobody takes a slot
    for (int i = 0; i < kBisections; ++i) {
      const double price = (low + high) / 2;
      (choose_at(jobs, price) > slots ? low : high) = price;
    }
    choose_at(jobs, high);
    fill(jobs, slots);
  }

  static void fill(std::vector<Costs>& jobs, std::uint32_t slots) {
    std::uint32_t free = slots;
    for (const Costs& job : jobs) free -= job.size;
    FirstOf order;
    order.reserve(jobs.size());
    for (std::uint32_t place = 0; place < jobs.size(); ++place) order.add(-jobs[place].next(free).gain, place);
    order.order();
    while (free > 0 && order.first().key < 0) {
      Costs& job = jobs[order.first().place];
      const auto step = job.next(free);
      if (-step.gain == order.first().key) {
        free -= step.size - job.size;
        job.size = step.size;
      }
      order.change_first(-job.next(free).gain);
    }
  }

  static void remember(const View& view, const Decision& decision, PolluxState& state) {
    for (auto& [id, seen] : state.jobs) seen.present = false;
    for (std::size_t place = 0; place < view.jobs.size(); ++place) {
      auto& seen = state.jobs[view.jobs[place].id];
      seen.present = true;
      if (view.jobs[place].started() && decision.grants[place].slots != view.jobs[place].held) ++seen.restarts;
    }
    std::erase_if(state.jobs, [](const auto& entry) { return !entry.second.present; });
  }

  PolluxOptions options_;
};

}  // namespace

std::unique_ptr<SharingPolicy> make_pollux(const PolluxOptions& options) {
  return std::make_unique<Pollux>(options);
}

}  // namespace elastictrain::heuristics::sharing
