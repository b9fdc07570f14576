// Optimus (EuroSys'18) for slots: the next slot goes to the job whose time to the end it shortens most; a job without
// slots gains infinitely, ties go to the earlier job. It stops where no job gains. The paper damps the gain of a job
// that has just begun, whose length is not known well, by 0.95; its published code does not.
#include "heuristics/sharing/fill.h"
#include "heuristics/sharing/policies.h"

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

}  // namespace elastictrain::heuristics::sharing
