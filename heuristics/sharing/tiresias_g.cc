// Tiresias-G (NSDI'19): jobs of unknown length in the order of the index P/E with a quantum of 3250 slot-seconds, from
// what the jobs that have ended needed: P, the chance to end within the quantum; E, what the job is expected to use of
// it (the standard form: of what it needs beyond what it has attained). The index is looked at again after every
// quantum that a job has used. Jobs beyond everything that is known form the last queue, first in, first out; so do all
// jobs until one has ended. What fits runs.
#include <algorithm>
#include <cmath>

#include "heuristics/sharing/policies.h"
#include "heuristics/sharing/queue_order.h"
#include "heuristics/sharing/service_history.h"

namespace elastictrain::heuristics::sharing {
namespace {

constexpr double kQuantum_slot_s = 3250;
constexpr double kUsedUp_slot_s = 1e-4;  // of a quantum: rounding of sums of times

struct History final : State {
  ServiceHistory services;
  std::unique_ptr<State> clone() const override { return std::make_unique<History>(*this); }
};

double quanta_used(const JobView& job) {
  return std::floor((job.attained_slot_s + kUsedUp_slot_s) / kQuantum_slot_s);
}

class TiresiasG final : public SharingPolicy {
 public:
  std::unique_ptr<State> initial_state() const override { return std::make_unique<History>(); }

  void decide(const View& view, State& state, Rng&, Decision& decision) const override {
    ServiceHistory& services = static_cast<History&>(state).services;
    for (const EndedJob& job : view.ended) services.add(job.attained_slot_s);
    std::vector<Keyed> order(view.jobs.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) {
      const double attained = quanta_used(view.jobs[place]) * kQuantum_slot_s;
      order[place] = {-services.index(attained, kQuantum_slot_s), place};
    }
    grant_in_order(view, order, view.slots, decision);
    set_next(view, decision);
  }

 private:
  static void set_next(const View& view, Decision& decision) {
    const bool waiting =
        std::any_of(decision.grants.begin(), decision.grants.end(), [](const Grant& g) { return g.slots == 0; });
    for (std::size_t place = 0; waiting && place < view.jobs.size(); ++place) {
      const JobView& job = view.jobs[place];
      if (decision.grants[place].slots == 0) continue;
      const double rest = (quanta_used(job) + 1) * kQuantum_slot_s - job.attained_slot_s;
      decision.again_s = std::min(decision.again_s, view.now_s + rest / decision.grants[place].slots);
    }
  }
};

}  // namespace

std::unique_ptr<SharingPolicy> make_tiresias_g() {
  return std::make_unique<TiresiasG>();
}

}  // namespace elastictrain::heuristics::sharing
