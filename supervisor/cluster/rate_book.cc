#include "supervisor/cluster/rate_book.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::cluster {

void RateBook::add(const std::vector<heuristics::Interval>& intervals, std::uint32_t hosts) {
  for (const heuristics::Interval& interval : intervals) {
    const double seconds = interval.seconds();
    const bool usable = std::isfinite(seconds) && seconds > 0 && interval.samples > 0 && interval.workers > 0;
    if (interval.warm_up || !usable) continue;
    const auto place = std::pair(interval.workers, std::clamp(hosts, 1U, interval.workers));
    if (!sums_.contains(place) && sums_.size() >= kMaxRates) continue;
    Sum& sum = sums_[place];
    if (sum.views >= kRememberedViews) sum = {sum.samples / 2, sum.seconds / 2, sum.views / 2};
    sum.samples += static_cast<double>(interval.samples);
    sum.seconds += seconds;
    ++sum.views;
  }
}

std::vector<Rate> RateBook::rates() const {
  std::vector<Rate> rates;
  for (const auto& [place, sum] : sums_) {
    const double rate = sum.samples / sum.seconds;
    if (rate <= static_cast<double>(kMaxCount)) rates.push_back({place.first, place.second, rate, sum.views});
  }
  return rates;
}

}  // namespace elastictrain::cluster
