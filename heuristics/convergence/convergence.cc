#include "heuristics/convergence/convergence.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace elastictrain::heuristics {
namespace {

constexpr std::size_t kFewestPoints = 16;
constexpr std::size_t kGroups = 16;    // of points, whose means the fit has to explain
constexpr std::size_t kFits = 5;       // whose estimates make the error
constexpr double kBetweenFits = 1.05;  // growth of the samples
constexpr double kLeastExplained = 0.7;
constexpr double kFarthest = 20;         // the end, over the samples so far
constexpr double kNoises = 3;            // of a fall that the error allows for
constexpr double kLargestError = 0.5;    // of the estimate
constexpr double kUsual = 0.9;           // of the points are no outliers in any case
constexpr double kOutlier = 4;           // distances to the median of the neighbours, over the largest usual one
constexpr double kLeastDistance = 1e-3;  // of the median loss, that is usual
constexpr std::size_t kNeighbours = 3;   // on each side
constexpr double kSegmentWeight = 16;    // of a third of the points over that of the third before

double quantile(std::vector<double> values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

// For one shift the curve is linear in its gain and floor.
struct Candidate {
  LossCurve curve;
  double error = 0;
};

Candidate candidate(const std::vector<LossPoint>& points, double shift) {
  double w = 0, wg = 0, wgg = 0, wl = 0, wgl = 0, wll = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double weight = std::pow(kSegmentWeight, static_cast<double>(3 * i / points.size()));
    const double g = 1 / (points[i].samples + shift), loss = points[i].loss;
    w += weight;
    wg += weight * g;
    wgg += weight * g * g;
    wl += weight * loss;
    wgl += weight * g * loss;
    wll += weight * loss * loss;
  }
  const double determinant = w * wgg - wg * wg;
  LossCurve curve{0, shift, wl / w};
  if (determinant > 1e-12 * w * wgg) {
    curve.gain = (w * wgl - wg * wl) / determinant;
    curve.floor = (wl - curve.gain * wg) / w;
  }
  if (curve.floor < 0) curve = {wgl / wgg, shift, 0};
  if (curve.gain < 0) curve = {0, shift, wl / w};
  const double error = wll - 2 * curve.gain * wgl - 2 * curve.floor * wl + curve.gain * curve.gain * wgg +
                       2 * curve.gain * curve.floor * wg + curve.floor * curve.floor * w;
  return {curve, error};
}

// Means of kGroups groups of neighbours: what noise is left in them is small.
std::vector<LossPoint> grouped(const std::vector<LossPoint>& points) {
  std::vector<LossPoint> groups(std::min(kGroups, points.size()));
  std::vector<double> sizes(groups.size(), 0);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t group = i * groups.size() / points.size();
    groups[group].samples += points[i].samples;
    groups[group].loss += points[i].loss;
    sizes[group] += 1;
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].samples /= sizes[i];
    groups[i].loss /= sizes[i];
  }
  return groups;
}

double explained_share(const std::vector<LossPoint>& points, const LossCurve& curve) {
  const auto groups = grouped(points);
  double mean = 0, left = 0, all = 0;
  for (const LossPoint& group : groups) mean += group.loss / static_cast<double>(groups.size());
  for (const LossPoint& group : groups) {
    left += std::pow(group.loss - curve(group.samples), 2);
    all += std::pow(group.loss - mean, 2);
  }
  return all > 0 ? 1 - left / all : 0;
}

double noise_of(const std::vector<LossPoint>& points, const LossCurve& curve) {
  const std::size_t first = points.size() * 2 / 3;
  double squares = 0;
  for (std::size_t i = first; i < points.size(); ++i) squares += std::pow(points[i].loss - curve(points[i].samples), 2);
  const double samples_of_point =
      (points.back().samples - points[first].samples) / static_cast<double>(points.size() - first - 1);
  return std::sqrt(squares / static_cast<double>(points.size() - first) * samples_of_point);
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

}  // namespace

std::vector<LossPoint> without_outliers(const std::vector<LossPoint>& points) {
  if (points.size() <= 2 * kNeighbours) return points;
  std::vector<double> distances(points.size(), 0);
  for (std::size_t i = kNeighbours; i < points.size(); ++i) {
    std::vector<double> around;
    for (std::size_t j = i - kNeighbours; j <= std::min(i + kNeighbours, points.size() - 1); ++j) {
      around.push_back(points[j].loss);
    }
    distances[i] = std::abs(points[i].loss - quantile(around, 0.5));
  }
  std::vector<double> losses;
  for (const LossPoint& point : points) losses.push_back(point.loss);
  const double usual = std::max(quantile(distances, kUsual), kLeastDistance * quantile(losses, 0.5));
  std::vector<LossPoint> kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (distances[i] <= kOutlier * usual) kept.push_back(points[i]);
  }
  return kept;
}

std::optional<LossCurve> fit_loss_curve(const std::vector<LossPoint>& points) {
  constexpr int kShifts = 40;
  constexpr int kRounds = 24;
  constexpr double kGolden = 0.618;
  const double last = points.back().samples;
  const auto at = [&](double exponent) { return candidate(points, last * std::pow(10.0, exponent)); };
  const double from = -6, to = 3, width = (to - from) / kShifts;
  int best = 0;
  for (int i = 1; i <= kShifts; ++i) {
    if (at(from + i * width).error < at(from + best * width).error) best = i;
  }
  double low = from + (best - 1) * width, high = from + (best + 1) * width;
  for (int i = 0; i < kRounds; ++i) {
    const double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
    (at(left).error < at(right).error ? high : low) = at(left).error < at(right).error ? right : left;
  }
  const LossCurve curve = at((low + high) / 2).curve;
  return curve.gain > 0 ? std::optional(curve) : std::nullopt;
}

void Convergence::add(double samples, double loss) {
  if (settings_.threshold <= 0 || !std::isfinite(loss) || loss < 0 || !(samples > samples_)) return;
  samples_ = samples;
  open_.samples += samples;
  open_.loss += loss;
  if (++open_losses_ == stride_) close_point();
}

void Convergence::close_point() {
  const auto losses = static_cast<double>(open_losses_);
  points_.push_back({open_.samples / losses, open_.loss / losses});
  open_ = {};
  open_losses_ = 0;
  if (points_.size() >= kFewestPoints && samples_ >= next_fit_) fit();
  if (points_.size() < kMostPoints) return;
  std::vector<LossPoint> halves;
  for (std::size_t i = 0; i + 1 < points_.size(); i += 2) {
    halves.push_back({(points_[i].samples + points_[i + 1].samples) / 2, (points_[i].loss + points_[i + 1].loss) / 2});
  }
  points_ = std::move(halves);
  stride_ *= 2;
}

void Convergence::fit() {
  next_fit_ = samples_ * kBetweenFits;
  const auto kept = without_outliers(points_);
  for (const LossPoint& point : kept) largest_ = std::max(largest_, point.loss);
  Fit fit;
  fit.curve = fit_loss_curve(kept);
  if (fit.curve) {
    fit.explained = explained_share(kept, *fit.curve);
    fit.noise = noise_of(kept, *fit.curve);
  }
  fits_.push_back(fit);
  if (fits_.size() > kFits) fits_.pop_front();
}

// The fall from one window to the next, between their middles, is less than the least from some window on; with it and
// those in a row the job ends at the end of a window.
double Convergence::end_of(const LossCurve& curve, double window, double least) const {
  const double from = (std::sqrt(window * window + 4 * curve.gain * window / least) - window) / 2 - curve.shift;
  const double first = std::max(std::ceil(from / window - 0.5), 0.0);
  return (first + settings_.windows + 1) * window;
}

double Convergence::error_of(double samples, double window) const {
  const double least = settings_.threshold * largest_;
  double error = window;
  for (const Fit& fit : fits_) error = std::max(error, std::abs(end_of(*fit.curve, window, least) - samples));
  const double noise = fits_.back().noise * std::sqrt(2 / window);
  return std::max(error, std::abs(end_of(*fits_.back().curve, window, least + kNoises * noise) - samples));
}

Convergence::Found Convergence::find(double epoch_samples) const {
  const double window = settings_.window_samples > 0 ? settings_.window_samples : epoch_samples;
  if (settings_.threshold <= 0) return {{}, "convergence.threshold is 0"};
  if (window <= 0) return {{}, "the samples of an epoch are not known: set convergence.window_samples"};
  if (fits_.size() < kFits) {
    const std::string few = std::to_string(points_.size()) + " points of the loss so far";
    return {{},
            points_.size() < kFewestPoints ? few + ", " + std::to_string(kFewestPoints) + " are needed"
                                           : "the loss was fitted " + std::to_string(fits_.size()) + " times, " +
                                                 std::to_string(kFits) + " are needed"};
  }
  const auto falls = [](const Fit& fit) { return fit.curve.has_value(); };
  if (!std::all_of(fits_.begin(), fits_.end(), falls) || largest_ <= 0) return {{}, "the loss does not fall"};
  const Fit& newest = fits_.back();
  if (newest.explained < kLeastExplained) {
    return {{},
            "the fit explains " + percent(std::max(newest.explained, 0.0)) + " of the variance of the losses, " +
                percent(kLeastExplained) + " are needed"};
  }
  ConvergenceEstimate estimate{end_of(*newest.curve, window, settings_.threshold * largest_), 0};
  if (estimate.samples > kFarthest * samples_) {
    return {{}, "its end is more than " + std::to_string(static_cast<int>(kFarthest)) + " times as far as the job is"};
  }
  estimate.error = error_of(estimate.samples, window);
  if (estimate.error > kLargestError * estimate.samples) {
    return {{},
            "its estimate may be off by " + percent(estimate.error / estimate.samples) + ", " + percent(kLargestError) +
                " are allowed"};
  }
  return {estimate, ""};
}

std::optional<ConvergenceEstimate> Convergence::estimate(double epoch_samples) const {
  const Found found = find(epoch_samples);
  return found.problem.empty() ? std::optional(found.estimate) : std::nullopt;
}

std::string Convergence::why_not(double epoch_samples) const {
  return find(epoch_samples).problem;
}

}  // namespace elastictrain::heuristics
