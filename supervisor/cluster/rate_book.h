// Purpose: how fast a run was at each size, from the intervals of the views that policies get: what its cluster shares
// slots by. Pure.
//
// The newest views count most: a book of more than kRememberedViews at a size forgets half of them.
// Ownership and thread: those of the run's reporter.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "heuristics/policy/view.h"
#include "supervisor/cluster/lease_protocol.h"

namespace elastictrain::cluster {

inline constexpr std::uint32_t kRememberedViews = 32;

class RateBook {
 public:
  // `hosts`: on which the members were.
  void add(const std::vector<heuristics::Interval>& intervals, std::uint32_t hosts);
  std::vector<Rate> rates() const;

 private:
  struct Sum {
    double samples = 0;
    double seconds = 0;
    std::uint32_t views = 0;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Sum> sums_;  // by workers and hosts
};

}  // namespace elastictrain::cluster
