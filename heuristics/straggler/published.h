// Purpose: published detectors, by name, for comparison and for users who know them. They are no policy programs
// because a detector judges within a policy, and `plan` replays it in its own time.
//
// - ewma: Or, Zhang, Freedman 2020 (algorithms A7, code form): e = 0.1 f + 0.9 e of the throughput relative to the
//   median, slow below 0.8; rank 0 is exempt there.
// - nvidia: NVIDIA resiliency extension (algorithms G): scores of a section relative to the best rank and to the
//   worker's own best median; slow if either is below 0.75. The compute part of a step is the only section here.
// - dlrover: DLRover (algorithms G): the smaller of two observations is more than twice the median of all.
// Times are normalised by the share, since shares can be uneven.
#pragma once

#include <memory>
#include <vector>

#include "heuristics/straggler/detector.h"

namespace elastictrain::heuristics {

struct EwmaOptions {
  double weight = 0.1;
  double limit = 0.8;
  bool rank_0_exempt = true;
};
std::unique_ptr<Detector> make_ewma_detector(const EwmaOptions& options);

struct ScoreOptions {
  double limit = 0.75;
  std::uint32_t window = 16;  // observations per median, and between two reports
};
std::unique_ptr<Detector> make_nvidia_detector(const ScoreOptions& options);

std::unique_ptr<Detector> make_dlrover_detector(double times_median);

// One step of the moving average; `first` initialises it.
double next_ewma(double average, double value, double weight, bool first);

// A kernel or section that every rank runs. The score is the mean of reference/own over them, weighted by the own time.
struct SectionTime {
  double reference = 0;  // median of the best rank, or the own best
  double median = 0;
  double average = 0;
  double count = 0;
};
double section_score(const std::vector<SectionTime>& sections);

}  // namespace elastictrain::heuristics
