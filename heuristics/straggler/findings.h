// Purpose: findings that are reported and decide nothing: workers that wait for data, and one of two workers that is
// slower.
#pragma once

#include <cstdint>
#include <optional>

#include "heuristics/policy/decision.h"
#include "heuristics/policy/view.h"
#include "heuristics/straggler/detector.h"

// Finds workers that wait for their data while the others do not: a slow disk, or a loader with too few
// processes. Such a worker computes as fast as the others, so the detectors do not see it, and a new worker in its
// place would read the same data: it is only reported.
//
// A worker is data-bound when, in several views in a row and for some seconds, it has waited longer than the lower
// median of the workers by a share of the step. Pure.

namespace elastictrain::heuristics {

struct DataWaitOptions {
  double min_share = 0.08;  // of a step
  double min_s = 2;
  std::uint32_t min_views = 5;
};

class DataWait {
 public:
  // The reason that names the worker that waits most; nothing if none is data-bound.
  std::optional<Reason> observe(const ClusterView& view, const JobView& job, const DataWaitOptions& options);

 private:
  struct Track {
    double excess_s = 0;  // of the newest view
    double since_s = 0;
    std::uint32_t views = 0;
  };
  PerWorker<Track> tracks_;
  double previous_s_ = 0;
};

// Says of two workers that one of them takes longer, and by how much. Which of the two is as it should be, two
// alone do not show: nothing is decided from it. The robust detector finds the one that changes; this finds one that
// was slow from the start.
//
// The compared value is the logarithm of the ratio of their times for a sample before the collective. Its mean over the
// recent views must exceed `min_slowdown` by four standard errors of these views, so that noise alone is not reported.
// Pure: no clock, no I/O.

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
