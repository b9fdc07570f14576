// Throughput of a job as a policy sees it. Nothing is measured at first, so every size up to the most is taken to be
// worth its slots: the job is given them, is measured there, and keeps them only if they pay.
#include <algorithm>

#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::jobs {
namespace {

constexpr std::uint32_t kFewestViews = 3;
constexpr double kNoise = 0.1;  // a loss with more workers that is smaller than this is taken for none
constexpr double kLeastGain = 1e-3;

using Point = heuristics::sharing::Curve::Point;

std::vector<Point> measured_points(const Job& job, std::uint32_t most) {
  std::vector<Point> points;
  for (const auto& [workers, measured] : job.rates) {
    if (workers == 0 || workers > most || measured.views < kFewestViews || !(measured.samples_per_s > 0)) continue;
    double rate = measured.samples_per_s;
    if (!points.empty() && rate < points.back().rate && rate > points.back().rate * (1 - kNoise)) {
      rate = points.back().rate * (1 + kLeastGain);
    }
    points.push_back({workers, rate});
  }
  return points;
}

}  // namespace

heuristics::sharing::Curve curve_of(const Job& job, std::uint32_t most, double guess) {
  std::vector<Point> points = measured_points(job, most);
  if (points.empty()) points.push_back({1, guess});
  const Point last = points.back();
  if (last.slots < most) points.push_back({most, last.rate / last.slots * most});
  return heuristics::sharing::Curve(std::move(points));
}

}  // namespace elastictrain::jobs
