// Shortest remaining time (SRTF) or service (SRSF: time x slots) at the requested size, preemptive. What fits runs.
#include "heuristics/sharing/policies.h"
#include "heuristics/sharing/queue_order.h"

namespace elastictrain::heuristics::sharing {
namespace {

class Shortest final : public SharingPolicy {
 public:
  explicit Shortest(bool service) : service_(service) {}

  void decide(const View& view, State&, Rng&, Decision& decision) const override {
    std::vector<Keyed> order(view.jobs.size());
    for (std::uint32_t place = 0; place < order.size(); ++place) order[place] = {key(view.jobs[place]), place};
    grant_in_order(view, order, view.slots, decision);
  }

 private:
  double key(const JobView& job) const {
    return job.remaining / job.curve->as_is(job.requested) * (service_ ? job.requested : 1);
  }

  bool service_;
};

}  // namespace

std::unique_ptr<SharingPolicy> make_srtf() {
  return std::make_unique<Shortest>(false);
}

std::unique_ptr<SharingPolicy> make_srsf() {
  return std::make_unique<Shortest>(true);
}

}  // namespace elastictrain::heuristics::sharing
