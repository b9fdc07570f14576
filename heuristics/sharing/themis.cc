// Themis (NSDI'20) in its centralised form (as Gavel computes it): the largest finish-time ratio is made as small as
// possible. The ratio of a job is the time from its arrival to its foreseen end over the time that it would take alone
// on an equal share of the cluster, slots / jobs. Slots go one at a time to the job with the largest ratio at its
// present share; of jobs without slots, which come first, to the one whose ratio with one slot is the largest. A job
// with a slot keeps it for a lease of 20 min before the order is looked at again; there is no auction.
#include <algorithm>

#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policies.h"

namespace elastictrain::heuristics::sharing {
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
