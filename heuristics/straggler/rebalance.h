// Purpose: shares by speed, so that a slow worker arrives at the collective together with the others.
//
// A worker gets a speed of its own when it is named slow, and loses it when it is as fast as the others again; all
// others keep speed 1, so their noise moves no samples. The speed is 1/slowdown at the present share and is corrected
// when that would let the step end sooner by `least_gain`, at most once in `settle_steps`: a part of the time that does
// not depend on the share is so met in a few corrections. After two small ones only a large gain moves samples again,
// or noise would move the last one to and fro. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "heuristics/policy/decision.h"
#include "heuristics/straggler/detector.h"

namespace elastictrain::heuristics {

struct RebalanceOptions {
  double least_gain = 0.02;       // of the time before the collective
  double recovered_below = 0.04;  // slowdown above 1 at which the own speed ends
  std::uint32_t settle_steps = 32;
};

class Rebalance {
 public:
  // The speeds to change to with the reason, if they are to change.
  struct Change {
    std::vector<WorkerSpeed> speeds;
    Reason reason;
  };
  std::optional<Change> decide(const JobView& job, const std::vector<SlowWorker>& slow,
                               const std::vector<double>& slowdowns, const RebalanceOptions& options);

 private:
  std::map<std::uint64_t, double> speeds_;  // of the workers that have one of their own
  double changed_at_steps_ = -1e9;          // JobView::steps_done
  std::uint32_t corrections_ = 0;           // small ones since the last large change
};

}  // namespace elastictrain::heuristics
