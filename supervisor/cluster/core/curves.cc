// Throughput of a job as a policy sees it. Nothing is measured at first, so every size up to the most is taken to be
// worth its slots: the job is given them, is measured there, and keeps them only if they pay.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::jobs {
namespace {

constexpr double kNoise = 0.1;  // a loss with more workers that is smaller than this is taken for none
constexpr double kLeastGain = 1e-3;

using Point = heuristics::sharing::Curve::Point;

std::vector<Point> measured_points(const Job& job, std::uint32_t most) {
  std::vector<Point> points;
  for (const auto& [workers, measured] : job.rates) {
    if (workers == 0 || workers > most || !measured.counts()) continue;
    double rate = measured.samples_per_s;
    if (!points.empty() && rate < points.back().rate && rate > points.back().rate * (1 - kNoise)) {
      rate = points.back().rate * (1 + kLeastGain);
    }
    points.push_back({workers, rate});
  }
  return points;
}

// What one worker does, as far as a job's own few views say. 0: there are none.
double own_guess(const Job& job) {
  double sum = 0, views = 0;
  for (const auto& [workers, measured] : job.rates) {
    if (workers == 0 || !(measured.samples_per_s > 0)) continue;
    sum += measured.samples_per_s / workers * measured.views;
    views += measured.views;
  }
  return views > 0 ? sum / views : 0;
}

}  // namespace

// Whether a size is measured now that was not before.
bool Cluster::take_rates(Job& job, const Report& report) const {
  const std::uint32_t hosts = hosts_of(book_.lease(job.id).slots);
  bool measured = false;
  std::map<std::uint32_t, Measured> best;
  std::set<std::uint32_t> chosen;
  for (const RateSeen& rate : report.rates) {
    if (rate.packed) {
      const bool present = job.packed.beside != 0 && report.lease >= job.packed.version;
      if (present && rate.workers == report.workers) job.packed.rate = {rate.samples_per_s, rate.views};
      continue;
    }
    const Measured seen{rate.samples_per_s, std::max(1U, rate.views)};
    const Measured there = std::exchange(job.rates_by_hosts[{rate.workers, rate.hosts}], seen);
    measured = measured || there.counts() != seen.counts();
    // Of several numbers of hosts the one that it has, once it is measured there; else the one that is known best.
    const bool present = rate.hosts == hosts && seen.counts();
    Measured& known = best.emplace(rate.workers, seen).first->second;
    if (present || (!chosen.contains(rate.workers) && seen.views > known.views)) known = seen;
    if (present) chosen.insert(rate.workers);
  }
  for (const auto& [workers, seen] : best) {
    const Measured before = std::exchange(job.rates[workers], seen);
    measured = measured || before.views == 0 || before.counts() != seen.counts();
  }
  return measured;
}

std::uint32_t hosts_of(const Slots& slots) {
  std::uint32_t hosts = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) hosts += i == 0 || slots[i].host != slots[i - 1].host ? 1 : 0;
  return hosts;
}

heuristics::sharing::Curve curve_of(const Job& job, std::uint32_t most, double guess) {
  std::vector<Point> points = measured_points(job, most);
  if (points.empty()) {
    const double own = own_guess(job);
    points.push_back({1, own > 0 ? own : guess});
  }
  const Point last = points.back();
  if (last.slots < most) points.push_back({most, last.rate / last.slots * most});
  return heuristics::sharing::Curve(std::move(points));
}

}  // namespace elastictrain::jobs
