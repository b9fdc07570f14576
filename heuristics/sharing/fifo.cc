// First in, first out, strictly: a job that does not fit holds back those behind it.
#include "heuristics/sharing/policies.h"

namespace elastictrain::heuristics::sharing {
namespace {

class Fifo final : public SharingPolicy {
 public:
  void decide(const View& view, State&, Rng&, Decision& decision) const override {
    std::uint32_t free = view.slots;
    for (std::size_t place = 0; place < view.jobs.size(); ++place) {
      const std::uint32_t requested = view.jobs[place].requested;
      if (requested > free) return;
      decision.grants[place] = {static_cast<double>(requested), Why::kFits, 0};
      free -= requested;
    }
  }
};

}  // namespace

std::unique_ptr<SharingPolicy> make_fifo() {
  return std::make_unique<Fifo>();
}

}  // namespace elastictrain::heuristics::sharing
