#include "heuristics/noise/noise_scale.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::heuristics {
namespace {

constexpr std::size_t kLeastAdditions = 3;
constexpr std::size_t kLeastAdditionsOfBound = 8;  // fewer tell little about their own spread

NoiseMoments moments_of(double small_square, double small, double large_square, double large) {
  return {.gradient_square = (large * large_square - small * small_square) / (large - small),
          .variance = (small_square - large_square) / (1 / small - 1 / large)};
}

}  // namespace

std::optional<NoiseMoments> noise_moments(const GradientNorms& norms) {
  const bool sizes = norms.local_batch > 0 && norms.global_batch > norms.local_batch;
  const bool finite = std::isfinite(norms.local_square) && std::isfinite(norms.global_square);
  if (norms.count == 0 || !sizes || !finite) return std::nullopt;
  return moments_of(norms.local_square, norms.local_batch, norms.global_square, norms.global_batch);
}

GradientNorms norms_of_pair(double first_square, double second_square, double dot, double batch) {
  return {.count = 1,
          .local_square = (first_square + second_square) / 2,
          .global_square = (first_square + second_square + 2 * dot) / 4,
          .local_batch = batch,
          .global_batch = 2 * batch};
}

void NoiseScale::add(const GradientNorms& norms) {
  const auto seen = noise_moments(norms);
  if (!seen) return;
  const auto steps = static_cast<double>(norms.count);
  const double keep = std::exp(-steps / horizon_steps_);
  const double weight = horizon_steps_ * (1 - keep);  // for that many steps at once, the older ones already discounted
  const auto blend = [&](double& sum, double value) { sum = keep * sum + weight * value; };
  blend(weight_, 1);
  square_weight_ = keep * keep * square_weight_ + weight * weight;
  blend(sum_.gradient_square, seen->gradient_square);
  blend(sum_.variance, seen->variance);
  blend(sum_gg_, seen->gradient_square * seen->gradient_square);
  blend(sum_ss_, seen->variance * seen->variance);
  blend(sum_gs_, seen->gradient_square * seen->variance);
  steps_ += steps;
  ++additions_;
}

std::optional<NoiseMoments> NoiseScale::moments() const {
  if (additions_ == 0) return std::nullopt;
  return NoiseMoments{sum_.gradient_square / weight_, sum_.variance / weight_};
}

std::optional<double> NoiseScale::value() const {
  const auto mean = moments();
  if (!mean || mean->gradient_square <= 0 || mean->variance <= 0) return std::nullopt;
  return mean->variance / mean->gradient_square;
}

// Variance of a mean: the variance of one addition over the effective number of additions less one.
NoiseScale::Spread NoiseScale::spread(const NoiseMoments& mean) const {
  const double share = square_weight_ / (weight_ * weight_);
  const double scale = share / std::max(1 - share, 1e-12);
  const double g = mean.gradient_square;
  const double s = mean.variance;
  return {.gradient_square = scale * std::max(0.0, sum_gg_ / weight_ - g * g),
          .variance = scale * std::max(0.0, sum_ss_ / weight_ - s * s),
          .both = scale * (sum_gs_ / weight_ - g * s)};
}

std::optional<double> NoiseScale::relative_error() const {
  if (additions_ < kLeastAdditions || !value()) return std::nullopt;
  const NoiseMoments mean = *moments();
  const double g = mean.gradient_square;
  const double s = mean.variance;
  const Spread of = spread(mean);
  const double square = of.variance / (s * s) + of.gradient_square / (g * g) - 2 * of.both / (s * g);
  return std::sqrt(std::max(0.0, square));
}

// The smallest r at which S - r G^2 may be 0: (S - r G^2)^2 = d^2 Var(S - r G^2), written so that nothing cancels out.
std::optional<double> NoiseScale::at_least(double deviations) const {
  if (additions_ < kLeastAdditionsOfBound) return std::nullopt;
  const NoiseMoments mean = *moments();
  const Spread of = spread(mean);
  const double squared = deviations * deviations;
  const double a = mean.gradient_square * mean.gradient_square - squared * of.gradient_square;
  const double b = mean.variance * mean.gradient_square - squared * of.both;
  const double c = mean.variance * mean.variance - squared * of.variance;
  if (mean.variance <= 0 || c <= 0) return std::nullopt;
  const double divisor = b + std::sqrt(std::max(0.0, b * b - a * c));
  if (divisor <= 0) return std::nullopt;
  return c / divisor;
}

void KungFuNoiseScale::add(double own_square, double batch, double average_square, double global_batch) {
  if (!(batch > 0) || !(global_batch > batch)) return;
  const NoiseMoments now = moments_of(own_square, batch, average_square, global_batch);
  const double keep = started_ ? decay_ : 0;
  mean_.gradient_square = keep * mean_.gradient_square + (1 - keep) * now.gradient_square;
  mean_.variance = keep * mean_.variance + (1 - keep) * now.variance;
  started_ = true;
}

std::optional<double> KungFuNoiseScale::value() const {
  if (!started_ || mean_.gradient_square <= 0 || mean_.variance < 0) return std::nullopt;
  return magnitude();
}

std::optional<double> KungFuNoiseScale::magnitude() const {
  if (!started_ || mean_.gradient_square == 0) return std::nullopt;
  return std::abs(mean_.variance / mean_.gradient_square);
}

double gradient_variance(const std::vector<double>& mean_of_squares, const std::vector<double>& mean) {
  double sum = 0;
  for (std::size_t i = 0; i < mean_of_squares.size() && i < mean.size(); ++i) {
    const double variance = mean_of_squares[i] - mean[i] * mean[i];
    sum += variance * variance;
  }
  return std::sqrt(sum);
}

void SgdNoise::add(const GradientNorms& norms) {
  if (norms.count == 0 || !std::isfinite(norms.local_square) || !std::isfinite(norms.global_square)) return;
  window_.push_back(norms);
  steps_ += norms.count;
  while (window_.size() > 1 && steps_ - window_.front().count >= window_steps_) {
    steps_ -= window_.front().count;
    window_.pop_front();
  }
}

std::optional<double> SgdNoise::value() const {
  double local = 0;
  double global = 0;
  for (const auto& norms : window_) {
    local += static_cast<double>(norms.count) * norms.local_square;
    global += static_cast<double>(norms.count) * norms.global_square;
  }
  if (!(global > 0)) return std::nullopt;
  return local / global;
}

double expected_sgd_noise(double noise_scale, double local_batch, double workers) {
  if (!(local_batch > 0) || !(workers > 0)) return 1;
  return (1 + noise_scale / local_batch) / (1 + noise_scale / (local_batch * workers));
}

}  // namespace elastictrain::heuristics
