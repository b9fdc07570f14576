// Purpose: our detector. It reports workers that stay slow despite the noise of their host, and no others.
//
// The compared value is the time per sample before the collective, as the logarithm of its ratio to the lower median of
// all workers. With uneven shares, the ratio of whole times is used if it is smaller: a part of every step does not
// depend on the share, so the actual slowdown lies between the two.
//
// - Evidence for a worker grows when a view exceeds `min_slowdown` and falls when it is below (a cumulative sum, Page
//   1954). A view can add only a limited amount, so one spike of any size is not enough.
// - The required evidence follows from the worker's own noise: the mean difference of successive block means, so noise
//   that lasts over several steps counts in full. Before a worker has such a past, the median deviation over the
//   workers is used. Without noise it is 3.25 ln(1 + min_slowdown): a slowness of x is named after
//   3.25 ln(1 + min_slowdown) / (ln(1 + x) - ln(1 + min_slowdown)) views.
// - The evidence must span `min_steps` steps, `min_s` seconds, four views, and half as long again as earlier
//   slowness that passed by itself. Then the median of its recent views must be slow as well, and three median
//   deviations beyond the other workers, so that the last worker of a wide distribution is not reported.
// - With two workers the ratio alone cannot tell which one changed. A worker must then have become slower relative to
//   the other one and relative to its own past; for the first views nothing is judged.
// - A worker is no longer slow when the median of its recent views is below half of `min_slowdown`.
// - What has passed when the evidence is complete is not named: the newest view must be slow. A slowness begins and
//   ends within a view: its mean tells how much of its time was as slow as the views between.
// While membership changes a slowness must last twice as long: starting workers disturb the others on their host.
//
// If more than half of the workers are slow, the rest look fast: no worker is reported.
// State: about 300 bytes per worker; a view of 10,000 workers takes a third of a millisecond.
#pragma once

#include <cstdint>
#include <memory>

#include "heuristics/straggler/detector.h"

namespace elastictrain::heuristics {

struct RobustOptions {
  double min_slowdown = 0.08;  // 0.08: eight percent more time than the others
  std::uint32_t min_steps = 15;
  double min_s = 2;
};

std::unique_ptr<Detector> make_robust_detector(const RobustOptions& options);

}  // namespace elastictrain::heuristics
