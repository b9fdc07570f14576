#include "heuristics/sharing/fill.h"

namespace elastictrain::heuristics::sharing {

bool grant_all_they_can_use(const View& view, Decision& decision) {
  std::uint64_t sum = 0;
  for (const JobView& job : view.jobs) sum += most_slots(view, job);
  if (sum > view.slots) return false;
  for (std::size_t place = 0; place < view.jobs.size(); ++place) {
    decision.grants[place] = {static_cast<double>(most_slots(view, view.jobs[place])), Why::kAlone, 0};
  }
  return true;
}

}  // namespace elastictrain::heuristics::sharing
