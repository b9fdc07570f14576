// Purpose: shares by speed, so that a slow worker arrives at the collective together with the others.
//
// A worker gets a speed of its own when it is reported slow, and loses it when it is as fast as the others again. All
// others keep speed 1, so their noise moves no samples. The speed is 1/slowdown at the present share. It is corrected,
// at most once in `settle_steps`, if that shortens the step by `min_gain`; so a part of the time that does not depend
// on the share is compensated within a few corrections. After two small corrections only a large gain moves samples
// again, or noise would move the last sample back and forth. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "heuristics/policy/decision.h"
#include "heuristics/straggler/detector.h"

namespace elastictrain::heuristics {

struct RebalanceOptions {
  double min_gain = 0.02;         // of the time before the collective
  double recovered_below = 0.04;  // slowdown above 1 below which a worker loses its own speed
  std::uint32_t settle_steps = 32;
};

class Rebalance {
 public:
  // The new speeds and the reason, if they are to change.
  struct Change {
    std::vector<WorkerSpeed> speeds;
    Reason reason;
  };
  std::optional<Change> decide(const JobView& job, const std::vector<SlowWorker>& slow,
                               const std::vector<double>& slowdowns, const RebalanceOptions& options);

 private:
  std::map<std::uint64_t, double> speeds_;  // of the workers with a speed of their own
  double changed_at_steps_ = -1e9;          // JobView::steps_done
  std::uint32_t corrections_ = 0;           // small corrections since the last large change
};

}  // namespace elastictrain::heuristics
