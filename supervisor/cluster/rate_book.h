// Purpose: throughput of a run at each size, from the intervals of the views that policies get. Its cluster shares
// slots by it. Pure.
//
// The newest views count most: a book of more than kRememberedViews at a size forgets half of them. What was measured
// while another job shared the slots is kept apart, and forgotten sooner, so that it is about that job.
// Ownership and thread: those of the run's reporter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/policy/view.h"
#include "supervisor/cluster/lease_protocol.h"

namespace elastictrain::cluster {

inline constexpr std::uint32_t kRememberedViews = 32;
inline constexpr std::uint32_t kRememberedPackedViews = 4;

class RateBook {
 public:
  // `hosts`: on which the members were.
  void add(const std::vector<heuristics::Interval>& intervals, std::uint32_t hosts);
  std::vector<Rate> rates() const { return rates_of(sums_, &Sum::views); }
  // Beside whom all that follows is measured; empty: nobody. What was measured beside another one is forgotten.
  void set_beside(const std::string& job);
  // `views` counts those that are forgotten, too.
  std::vector<Rate> packed_rates() const { return rates_of(packed_, &Sum::seen); }

 private:
  struct Sum {
    double samples = 0;
    double seconds = 0;
    std::uint32_t views = 0;  // that count
    std::uint32_t seen = 0;   // that it tells of
  };
  using Sums = std::map<std::pair<std::uint32_t, std::uint32_t>, Sum>;  // by workers and hosts

  static void add(Sum& sum, const heuristics::Interval& interval, std::uint32_t remembered);
  static std::vector<Rate> rates_of(const Sums& sums, std::uint32_t Sum::*views);

  Sums sums_, packed_;
  std::string beside_;
  bool straddles_ = false;  // the interval that is open began beside somebody else
};

}  // namespace elastictrain::cluster
