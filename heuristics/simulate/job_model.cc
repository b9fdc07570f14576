#include "heuristics/simulate/job_model.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::heuristics {

ThroughputCurve::ThroughputCurve(std::vector<std::pair<std::uint32_t, double>> points) : points_(std::move(points)) {}

double ThroughputCurve::operator()(std::uint32_t workers) const {
  if (points_.empty() || workers == 0) return 0;
  const auto right = std::lower_bound(points_.begin(), points_.end(), workers,
                                      [](const auto& point, std::uint32_t size) { return point.first < size; });
  if (right == points_.end()) return points_.back().second;
  if (right == points_.begin()) return right->second * workers / right->first;
  const auto left = right - 1;
  const double part = static_cast<double>(workers - left->first) / (right->first - left->first);
  return left->second + part * (right->second - left->second);
}

ThroughputCurve ThroughputCurve::monotone() const {
  auto points = points_;
  for (std::size_t i = 1; i < points.size(); ++i) points[i].second = std::max(points[i].second, points[i - 1].second);
  return ThroughputCurve(std::move(points));
}

double JobModel::rate(std::uint32_t workers, double now_s) const {
  const ThroughputCurve& now = later_from_s > 0 && now_s >= later_from_s ? later : curve;
  return now(workers) * std::exp(drift_per_hour * now_s / 3600);
}

double JobModel::step_s(std::uint32_t workers, double now_s) const {
  return static_cast<double>(plan_batch(batch, workers).global) / rate(workers, now_s);
}

double JobModel::compute_part(std::uint32_t workers, double now_s) const {
  const double share = static_cast<double>(plan_batch(batch, workers).global) / workers;
  return std::min(1.0, share / rate(1, now_s) / step_s(workers, now_s));
}

StepNoise::StepNoise(double deviation, double correlation)
    : sigma_(std::sqrt(std::log1p(deviation * deviation))), correlation_(correlation) {}

double StepNoise::next(std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  const double fresh = normal(rng);
  state_ = first_ ? fresh : correlation_ * state_ + std::sqrt(1 - correlation_ * correlation_) * fresh;
  first_ = false;
  return std::exp(sigma_ * state_ - sigma_ * sigma_ / 2);
}

}  // namespace elastictrain::heuristics
