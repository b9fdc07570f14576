// Purpose: shares by speed, so that a slow worker arrives at the collective together with the others.
//
// A worker gets a speed of its own when it is reported slow, and loses it when it is as fast as the others again. All
// others keep speed 1, so their noise moves no samples. The speed is 1/slowdown at the present share. It is corrected,
// at most once in `settle_steps`, if that shortens the step by `min_gain`; so a part of the time that does not depend
// on the share is compensated within a few corrections. After two small corrections only a large gain moves samples
// again, or noise would move the last sample back and forth.
//
// After `settle_steps` steps with the new shares the result is checked: where the last worker arrives less than a
// quarter as much earlier as was expected, the shares are what they were, and these workers are left alone for ten
// minutes. What makes them slow is not their samples. Pure.
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
                               const std::vector<double>& slowdowns, const RebalanceOptions& options, double now_s);

 private:
  using Speeds = std::map<std::uint64_t, double>;
  // Until the last worker arrives at the collective, over steps with the same shares.
  struct Arrivals {
    std::vector<std::uint32_t> shares;  // none: of no view yet
    double steps = 0;
    double sum_s = 0;
    double recent_s = 0;  // of the last few, by when a worker that has become slow was found
    double mean_s() const { return steps > 0 ? sum_s / steps : 0; }
  };
  struct Attempt {
    double before_s = 0;
    double gain = 0;  // that was expected
    std::vector<std::uint32_t> shares;
    Speeds before;
  };

  void watch(const JobView& job);
  std::optional<Change> judge(const JobView& job, const RebalanceOptions& options, double now_s);
  Speeds target_of(const JobView& job, const std::vector<SlowWorker>& slow, const std::vector<double>& slowdowns,
                   const RebalanceOptions& options, double now_s) const;

  Speeds speeds_;  // of the workers with a speed of their own
  Arrivals arrivals_;
  std::optional<Attempt> attempt_;
  std::map<std::uint64_t, double> left_alone_until_s_;
  double changed_at_steps_ = -1e9;  // JobView::steps_done
  std::uint32_t corrections_ = 0;   // small corrections since the last large change
};

}  // namespace elastictrain::heuristics
