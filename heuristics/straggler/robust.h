// Purpose: our detector. It names a worker that stays slow, whatever the noise of the host, and no other.
//
// What is compared: the time for a sample before the collective, as the logarithm of its ratio to the lower median of
// all workers. Where shares are uneven, the ratio of whole times is taken when it is less: a part of every step does
// not depend on the share, so the truth lies between the two.
//
// - Evidence of a worker grows with what each view shows above `least_slowdown` and falls with what is below (a
//   cumulative sum, Page 1954). A view can add only so much, so one spike, however large, proves nothing.
// - How much evidence it takes follows from the worker's own noise: the mean difference of successive block means, so
//   noise that lasts over several steps counts in full. Before it has such a past, the median deviation over the
//   workers is taken.
// - The evidence must span `least_steps` steps, `least_s` seconds, a few views, and half as long again as slownesses
//   that have passed by themselves lasted before. Then the median of its recent views must be slow as well, and three
//   median deviations beyond the other workers, or it would only be the last of a wide field.
// - Of two workers the ratio alone cannot say which one changed. There a worker must have become slower against the
//   other one and against its own past; for the first views nothing is judged.
// - A worker is slow no longer when the median of its recent views is below half of `least_slowdown`.
// While membership changes nothing is judged: starting workers disturb the others on their host.
//
// More than half of the workers slow look like the rest being fast: nobody is named.
// State: some 300 bytes a worker; a view of 10,000 workers takes a third of a millisecond.
#pragma once

#include <cstdint>
#include <memory>

#include "heuristics/straggler/detector.h"

namespace elastictrain::heuristics {

struct RobustOptions {
  double least_slowdown = 0.08;  // 0.08: eight percent more time than the others
  std::uint32_t least_steps = 15;
  double least_s = 2;
};

std::unique_ptr<Detector> make_robust_detector(const RobustOptions& options);

}  // namespace elastictrain::heuristics
