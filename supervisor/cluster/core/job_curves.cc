// Throughput of a job as a policy sees it. Nothing is measured at first, so every size up to the most is taken to be
// worth its slots: the job is given them, is measured there, and keeps them only if they pay.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "supervisor/cluster/core/state.h"

namespace elastictrain::cluster_core {
namespace {

constexpr double kNoise = 0.1;  // a loss with more workers that is smaller than this is taken for none
constexpr double kLeastGain = 1e-3;
constexpr double kAsExpected = 0.05;  // of the line through what was measured before

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

// Whether a size is among these that was not measured before. Nearly all reports have none.
bool has_news(const Job& job, const std::vector<RateSeen>& rates) {
  return std::any_of(rates.begin(), rates.end(), [&](const RateSeen& rate) {
    const auto known = job.rates_by_hosts.find({rate.workers, rate.hosts});
    const Measured seen{rate.samples_per_s, rate.views};
    return !rate.packed && (known == job.rates_by_hosts.end() || known->second.counts() != seen.counts());
  });
}

// Whether each of these speeds is what the line through those measured before says. Jobs that gain equally much of a
// slot would exchange it at each measurement otherwise, by its noise.
bool as_expected(const Job& job, const std::vector<RateSeen>& rates) {
  const bool knows = std::any_of(job.rates.begin(), job.rates.end(), [](auto& rate) { return rate.second.counts(); });
  if (!knows || job.move || job.trial) return false;
  std::uint32_t most = 1;
  for (const RateSeen& rate : rates) most = std::max(most, rate.workers);
  const auto line = curve_of(job, most, 1);
  return std::all_of(rates.begin(), rates.end(), [&](const RateSeen& rate) {
    const double said = line.as_is(rate.workers);
    return rate.packed || std::abs(rate.samples_per_s - said) <= kAsExpected * said;
  });
}

// Where it is kept. Nothing: a run that says so much invents it.
template <class Key>
Measured* place_of(std::map<Key, Measured>& kept, const Key& key) {
  if (kept.size() >= kMostRates && !kept.contains(key)) return nullptr;
  return &kept[key];
}

}  // namespace

// Whether a size is measured now that was not before, and otherwise than was expected.
bool take_rates(const ClusterState& state, Job& job, const Report& report, record::Learned& learned) {
  const bool expected = has_news(job, report.rates) && as_expected(job, report.rates);
  const std::uint32_t hosts = hosts_of(state.book.lease(job.id).slots);
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
    Measured* const kept = place_of(job.rates_by_hosts, {rate.workers, rate.hosts});
    if (kept == nullptr) continue;
    if (kept->counts() && !seen.counts()) continue;  // a run that was taken up measures anew
    const Measured there = std::exchange(*kept, seen);
    if (there.counts() != seen.counts() || there.views == 0) learned.rates.push_back(rate);
    measured = measured || there.counts() != seen.counts();
    // Of several numbers of hosts the one that it has, once it is measured there; else the one that is known best.
    const bool present = rate.hosts == hosts && seen.counts();
    Measured& known = best.emplace(rate.workers, seen).first->second;
    if (present || (!chosen.contains(rate.workers) && seen.views > known.views)) known = seen;
    if (present) chosen.insert(rate.workers);
  }
  for (const auto& [workers, seen] : best) {
    Measured* const kept = place_of(job.rates, workers);
    if (kept == nullptr) continue;
    const Measured before = std::exchange(*kept, seen);
    measured = measured || before.views == 0 || before.counts() != seen.counts();
  }
  return measured && !expected;
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

// A job that does not say its goodput learns at its throughput: as one whose batch stays what it is.
heuristics::sharing::Curve goodput_of(const Job& job, std::uint32_t most,
                                      const heuristics::sharing::Curve& throughput) {
  std::vector<Point> points;
  for (const Point& point : job.goodput) {
    if (point.slots <= most) points.push_back(point);
  }
  return points.empty() ? throughput : heuristics::sharing::Curve(std::move(points));
}

}  // namespace elastictrain::cluster_core
