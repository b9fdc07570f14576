// Purpose: the noise of gradients, estimated from squared norms that the all-reduce carries anyway (algorithms B1, F,
// G).
//
// With G^2 the squared norm of the true gradient and S the trace of the covariance of one sample's gradient, a batch of
// b samples has E|g_b|^2 = G^2 + S/b. Two batch sizes give both; S/G^2, in samples, is the gradient noise scale
// (McCandlish et al. 2018). Pure values; nothing here reads a clock or draws random numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "heuristics/policy/view.h"

namespace elastictrain::heuristics {

// G^2 and S. Unbiased, so a single estimate may be negative: only means over many steps are meaningful.
struct NoiseMoments {
  double gradient_square = 0;  // G^2
  double variance = 0;         // S
};

// Nothing if the two batches are equal (one worker whose program reports no halves) or no step was seen.
std::optional<NoiseMoments> noise_moments(const GradientNorms& norms);

// The norms of two consecutive gradients of a single worker, taken as one batch of twice the size: AdaptDL's method
// when there is no other worker to compare with. `dot` is the inner product of the two.
GradientNorms norms_of_pair(double first_square, double second_square, double dot, double batch);

inline constexpr double kSurely = 2;  // standard deviations by which a lower bound of the noise scale holds

// Ours: all workers' gradients, weighted by steps, averaged with exponential forgetting and with the initial bias
// corrected. G^2 and S are averaged separately, as the mean of ratios is not the ratio of means.
class NoiseScale {
 public:
  NoiseScale() = default;
  // Number of steps after which an observation has weight 1/e.
  explicit NoiseScale(double horizon_steps) : horizon_steps_(horizon_steps) {}

  void add(const GradientNorms& norms);
  double steps() const { return steps_; }  // in total

  std::optional<NoiseMoments> moments() const;
  // S/G^2 in samples; nothing before the first step or while the mean of G^2 or S is not positive.
  std::optional<double> value() const;
  // Standard error of `value` relative to it, from the variance of the additions; nothing before three additions.
  std::optional<double> relative_error() const;
  // A lower bound of S/G^2 that holds with so many standard deviations, by Fieller's theorem for the ratio of two
  // means. It is often known where `value` is not: when batches are far smaller than the noise scale, S is known well
  // and G^2 only to be small. Nothing before eight additions, while S itself may be 0, or where G^2 is surely negative,
  // as no gradients are that were drawn independently.
  std::optional<double> at_least(double deviations = kSurely) const;

 private:
  // Variances and the covariance of the means of G^2 and S.
  struct Spread {
    double gradient_square = 0;
    double variance = 0;
    double both = 0;
  };
  Spread spread(const NoiseMoments& mean) const;

  double horizon_steps_ = 1000;
  double steps_ = 0;
  std::size_t additions_ = 0;
  double weight_ = 0;         // sum of weights
  double square_weight_ = 0;  // sum of squared weights
  NoiseMoments sum_;
  double sum_gg_ = 0, sum_ss_ = 0, sum_gs_ = 0;
};

// KungFu's form: one worker's own gradient against the average, EMA(S) / EMA(G), initialised with the first sample,
// without bias correction. While noise hides G or S the quotient is negative and says nothing; KungFu uses its
// magnitude. `decay` is 0.9 in KungFu's optimizer and 0.6 in its bare operator.
class KungFuNoiseScale {
 public:
  KungFuNoiseScale() = default;
  explicit KungFuNoiseScale(double decay) : decay_(decay) {}

  // `own_square` of one worker's `batch` samples, `average_square` of all `global_batch` samples. Equal batches change
  // nothing.
  void add(double own_square, double batch, double average_square, double global_batch);
  std::optional<double> value() const;      // nothing before the first step, and while EMA(G) or EMA(S) is negative
  std::optional<double> magnitude() const;  // of the quotient, whatever its sign; nothing if EMA(G) is exactly 0

 private:
  double decay_ = 0.9;
  bool started_ = false;
  NoiseMoments mean_;
};

// KungFu's gradient variance of one tensor: || avg(g^2) - avg(g)^2 ||_2 over its elements. A model's is the sum over
// its tensors. Both vectors have equal length.
double gradient_variance(const std::vector<double>& mean_of_squares, const std::vector<double>& mean);

// Scavenger's noise gamma = E[mean over workers of |g_k|^2] / E[|average|^2] over the last `window` steps: 1 without
// noise, the number of workers with noise only.
class SgdNoise {
 public:
  SgdNoise() = default;
  explicit SgdNoise(std::uint64_t window_steps) : window_steps_(window_steps) {}

  void add(const GradientNorms& norms);
  std::optional<double> value() const;  // nothing before the first step or if all gradients are 0

 private:
  std::uint64_t window_steps_ = 50;
  std::deque<GradientNorms> window_;
  std::uint64_t steps_ = 0;
};

// Gamma for independent workers of `local_batch` samples each, given the noise scale (derived in algorithms F).
double expected_sgd_noise(double noise_scale, double local_batch, double workers);

}  // namespace elastictrain::heuristics
