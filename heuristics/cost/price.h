// Purpose: the price of workers on the hosts of a view, by host class.
//
// Pure. Prices per second; per hour if the name says so.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heuristics/policy/view.h"

namespace elastictrain::heuristics {

class Prices {
 public:
  // A job's slots are those of its own workers and the free ones. If no host has a price, each worker costs
  // `default_per_hour`. Hosts that are leaving take no further workers.
  Prices(const std::vector<HostView>& hosts, const JobView& job, double default_per_hour);

  // Total price of that many workers on the cheapest slots.
  double per_s(std::uint32_t workers) const;

 private:
  std::vector<std::pair<double, std::uint32_t>> slots_;  // (price per second of a worker, how many), cheapest first
  double beyond_per_s_ = 0;                              // of workers without a known slot
};

}  // namespace elastictrain::heuristics
