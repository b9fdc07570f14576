#include "heuristics/sharing/service_history.h"

#include <algorithm>
#include <limits>

namespace elastictrain::heuristics::sharing {

void ServiceHistory::add(double service) {
  fresh_.push_back(service);
  if (20 * fresh_.size() >= services_.size()) merge();
}

void ServiceHistory::merge() {
  const auto old = static_cast<std::ptrdiff_t>(services_.size());
  std::sort(fresh_.begin(), fresh_.end());
  services_.insert(services_.end(), fresh_.begin(), fresh_.end());
  std::inplace_merge(services_.begin(), services_.begin() + old, services_.end());
  fresh_.clear();
  sums_.assign(1, 0);
  for (const double service : services_) sums_.push_back(sums_.back() + service);
}

double ServiceHistory::index_from(std::size_t from, double attained, double quantum) const {
  const auto first = services_.begin() + static_cast<std::ptrdiff_t>(from);
  const auto to =
      static_cast<std::size_t>(std::upper_bound(first, services_.end(), attained + quantum) - services_.begin());
  const auto longer = static_cast<double>(services_.size() - to);
  const auto ended = static_cast<double>(to - from);
  const double used = sums_[to] - sums_[from] - ended * attained + longer * quantum;
  return used > 0 ? ended / used : 0;
}

double ServiceHistory::index(double attained, double quantum) const {
  const auto from = std::upper_bound(services_.begin(), services_.end(), attained) - services_.begin();
  return index_from(static_cast<std::size_t>(from), attained, quantum);
}

double ServiceHistory::expected_price(double attained, double least) const {
  const auto from =
      static_cast<std::size_t>(std::upper_bound(services_.begin(), services_.end(), attained) - services_.begin());
  if (from == services_.size()) return std::numeric_limits<double>::infinity();
  double best = 0;
  for (double horizon = least;; horizon *= 2) {
    best = std::max(best, index_from(from, attained, horizon));
    if (attained + horizon >= services_.back()) return 1 / best;
  }
}

}  // namespace elastictrain::heuristics::sharing
