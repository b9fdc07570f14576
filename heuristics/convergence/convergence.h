// Purpose: estimates the samples that a job needs until its loss converges, from its loss so far (Optimus 2018,
// algorithms D).
//
// The curve l(x) = 1 / (b0 x + b1) + b2 with b0, b1, b2 >= 0 is fitted by non-negative least squares to losses over the
// largest one; later points count more, and outliers do not. A job has converged when the mean loss of a window is less
// than `threshold` of the largest loss below that of the window before, in `windows` windows in a row. A window is an
// epoch, or a number of samples.
//
// The error of an estimate is its largest distance to those of the fits before it, of which there is one for each
// twentieth that the job has gone on, and to that of a fall that is larger by three times the noise of both windows; it
// is at least a window. No estimate is given, and why_not() says why, while there are too few points, the loss does not
// fall, the fit leaves more than 30 % of the variance of 16 means of the losses, the end is more than twenty times as
// far as the job is, or the error is more than half of the estimate.
//
// Pure and deterministic. Memory is bounded: when there are kMostPoints, neighbours become one. Ownership and thread:
// the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace elastictrain::heuristics {

struct ConvergenceSettings {
  double threshold = 0.001;  // of the largest loss, in a window; 0: no estimates
  std::uint32_t windows = 3;
  double window_samples = 0;  // 0: an epoch
};

// l(x) = gain / (x + shift) + floor, with x in samples: b0 = 1 / gain, b1 = shift / gain, b2 = floor.
struct LossCurve {
  double gain = 0;
  double shift = 0;
  double floor = 0;
  double operator()(double samples) const { return gain / (samples + shift) + floor; }
};

struct LossPoint {
  double samples = 0;
  double loss = 0;
};

// Nothing if the loss does not fall. Points by rising samples, the last one above 0.
std::optional<LossCurve> fit_loss_curve(const std::vector<LossPoint>& points);

// Without those that their neighbours on both sides do not explain.
std::vector<LossPoint> without_outliers(const std::vector<LossPoint>& points);

struct ConvergenceEstimate {
  double samples = 0;  // of the whole job
  double error = 0;    // in samples, to both sides
};

class Convergence {
 public:
  static constexpr std::size_t kMostPoints = 256;  // even

  explicit Convergence(ConvergenceSettings settings) : settings_(settings) {}

  // The loss after so many samples of the job. One that is no number, or not newer than the last, changes nothing.
  void add(double samples, double loss);

  // `epoch_samples`: 0 where they are not known.
  std::optional<ConvergenceEstimate> estimate(double epoch_samples) const;
  // For people; empty where there is an estimate.
  std::string why_not(double epoch_samples) const;

  std::size_t points() const { return points_.size(); }
  double largest() const { return largest_; }  // of all points, without outliers

 private:
  struct Fit {
    std::optional<LossCurve> curve;
    double explained = 0;  // share of the variance
    double noise = 0;      // of a loss of one sample, by the newest third: that of n samples is 1 / sqrt(n) of it
  };
  struct Found {
    ConvergenceEstimate estimate;
    std::string problem;
  };
  Found find(double epoch_samples) const;
  double end_of(const LossCurve& curve, double window, double least) const;
  double error_of(double samples, double window) const;
  void close_point();
  void fit();

  ConvergenceSettings settings_;
  std::vector<LossPoint> points_;  // means of `stride_` losses
  std::size_t stride_ = 1;
  std::size_t open_losses_ = 0;  // of the point that is not complete
  LossPoint open_;               // their sums
  double samples_ = 0;           // of the newest loss
  double largest_ = 0;           // of all points
  double next_fit_ = 0;          // in samples
  std::deque<Fit> fits_;         // the newest last
};

}  // namespace elastictrain::heuristics
