#include "supervisor/cluster/rate_book.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace elastictrain::cluster {

void RateBook::set_beside(const std::string& job) {
  if (job == beside_) return;
  beside_ = job;
  packed_.clear();
  straddles_ = true;
}

void RateBook::add(Sum& sum, const heuristics::Interval& interval, std::uint32_t remembered) {
  if (sum.views >= remembered) sum = {sum.samples / 2, sum.seconds / 2, sum.views / 2, sum.seen};
  sum.samples += static_cast<double>(interval.samples);
  sum.seconds += interval.seconds();
  ++sum.views;
  ++sum.seen;
}

void RateBook::add(const std::vector<heuristics::Interval>& intervals, std::uint32_t hosts) {
  Sums& sums = beside_.empty() ? sums_ : packed_;
  for (const heuristics::Interval& interval : intervals) {
    const double seconds = interval.seconds();
    const bool usable = std::isfinite(seconds) && seconds > 0 && interval.samples > 0 && interval.workers > 0;
    if (interval.warm_up || !usable) continue;
    if (std::exchange(straddles_, false)) continue;
    const auto place = std::pair(interval.workers, std::clamp(hosts, 1U, interval.workers));
    if (!sums.contains(place) && sums.size() >= kMaxRates) continue;
    add(sums[place], interval, beside_.empty() ? kRememberedViews : kRememberedPackedViews);
  }
}

std::vector<Rate> RateBook::rates_of(const Sums& sums, std::uint32_t Sum::*views) {
  std::vector<Rate> rates;
  for (const auto& [place, sum] : sums) {
    const double rate = sum.samples / sum.seconds;
    if (rate <= static_cast<double>(kMaxCount)) rates.push_back({place.first, place.second, rate, sum.*views});
  }
  return rates;
}

}  // namespace elastictrain::cluster
