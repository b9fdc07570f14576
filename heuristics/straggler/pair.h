// Purpose: says of two workers that one of them takes longer, and by how much. Which of the two is as it should be, two
// alone do not show: nothing is decided from it. The robust detector finds the one that changes; this finds one that
// was slow from the start.
//
// The compared value is the logarithm of the ratio of their times for a sample before the collective. Its mean over the
// recent views must exceed `min_slowdown` by four standard errors of these views, so that noise alone is not reported.
// Pure: no clock, no I/O.
#pragma once

#include <cstdint>
#include <optional>

#include "heuristics/policy/decision.h"
#include "heuristics/policy/view.h"

namespace elastictrain::heuristics {

struct PairOptions {
  double min_slowdown = 0.08;
  std::uint32_t min_steps = 15;
  double min_s = 2;
};

// A memory of the two; a copy of it is independent.
class PairDifference {
 public:
  // Processes one view. Nothing for another number of workers, or where they take equally long.
  std::optional<Reason> observe(const ClusterView& view, const JobView& job, const PairOptions& options);

 private:
  void begin(const JobView& job, double now_s);
  void add(const WorkerView& first, const WorkerView& second);
  bool is_certain(double now_s, const PairOptions& options) const;

  std::uint64_t first_ = 0;  // ids of those that are compared
  std::uint64_t second_ = 0;
  double since_s_ = 0;
  std::uint64_t steps_ = 0;
  std::uint32_t views_ = 0;
  double ratio_ = 0;    // running means: of the logarithm, the second relative to the first,
  double square_ = 0;   // … of the square of its deviation,
  double first_s_ = 0;  // … of their times for a step,
  double second_s_ = 0;
  double first_busy_ = 0;  // … and of the processors that their processes keep busy
  double second_busy_ = 0;
};

}  // namespace elastictrain::heuristics
