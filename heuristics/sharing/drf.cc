// Dominant resource fairness (Ghodsi et al., NSDI'11): the next slot goes to the job with the least dominant share, the
// largest of its shares of slots, CPUs and memory, if its demand still fits; ties go to the earlier job. Where only
// slots are scarce this is max-min.
#include <algorithm>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policies.h"

namespace elastictrain::heuristics::sharing {
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

}  // namespace elastictrain::heuristics::sharing
