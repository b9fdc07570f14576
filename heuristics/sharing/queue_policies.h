// Purpose: policies that order fixed-size jobs in a queue: fifo, srtf and srsf, tiresias-g, tiresias-l.
#pragma once

#include <cstdint>
#include <vector>

#include "heuristics/sharing/view.h"

// Fixed-size jobs in an order of keys: what fits runs, and jobs that do not fit are passed.
//
// Takes jobs from a heap only while one of those left could still fit, so a long queue behind a full cluster costs
// O(n).

namespace elastictrain::heuristics::sharing {

struct Keyed {
  double key = 0;           // smaller goes first
  std::uint32_t place = 0;  // in View::jobs; smaller goes first among equal keys
};

// Grants each job its request in the order of `order`, which is used up. Returns the slots that are left.
std::uint32_t grant_in_order(const View& view, std::vector<Keyed>& order, std::uint32_t free, Decision& decision);

}  // namespace elastictrain::heuristics::sharing
