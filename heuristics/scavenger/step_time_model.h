// Purpose: models of the time of a step by workers and batch, fitted to measured steps: the published forms and one
// by components.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "heuristics/fit/least_squares.h"

// The time of a step for a number of workers and of samples per worker, fitted to a few measured steps
// (Scavenger, algorithms F).
//
// Two forms are the paper's, t = c0 + c1 * batch + c2 * workers by least squares, with the batch of one worker or the
// global one. The third is ours, for effects that a plane cannot describe. A step consists of computing and
// communicating, which overlap (the power sum of Pollux). Computing depends on the worker's batch, communicating on the
// number of workers. Both deviate from a straight line (a kernel that suits one batch, a slow pair of hosts), so that a
// measurement at one size informs the prediction for the same batch at another. Pure.

namespace elastictrain::heuristics {

struct StepTimePoint {
  std::uint32_t workers = 0;
  double local_batch = 0;
  double seconds = 0;
};

enum class StepTimeForm : std::uint8_t { kPaperPerWorker, kPaperGlobal, kComponents };

class StepTimeModel {
 public:
  // Points that are not positive are ignored; nothing if none is left. Several points of one (workers, batch) are all
  // used.
  // Any number of points gives a model; few points give an uncertain one. Up to `workers_per_host` workers are assumed
  // to be on one host, where communicating costs differ; only kComponents makes this distinction.
  static std::optional<StepTimeModel> fit(StepTimeForm form, const std::vector<StepTimePoint>& points,
                                          std::uint32_t workers_per_host = 1);

  // Always positive, also far from the measurements.
  double seconds(std::uint32_t workers, double local_batch) const;
  StepTimeForm form() const { return form_; }
  // c0, c1, c2 of the paper's forms; empty for ours.
  const Vector& coefficients() const { return coefficients_; }

  class Components;

 private:
  StepTimeForm form_ = StepTimeForm::kComponents;
  Vector coefficients_;
  double min_ = 0;  // lower bound of a prediction: the paper's plane may fall below zero
  std::shared_ptr<const Components> components_;
};

// Our own form of the model in step_time_model.h.
//
// log t = log((T_c^g + T_n^g)^(1/g)) + rest, with T_c = (a + b * batch) * exp(u(batch)), T_n = (2 n (K-1)/K + m (K-2))
// * exp(v(K)), no T_n for one worker; n is the ring's data volume for any K, m the cost of each further worker; g from
// 1 (nothing overlaps) to 10 (everything does). u, v and rest are smooth deviations (Gaussian processes over log batch
// and log workers), so that a model of few points has no deviations and one of many follows the measurements.

// A smooth function of one logarithm, known by its values at some places.
class SmoothDeviation {
 public:
  SmoothDeviation() = default;
  // Deviations have the size `deviation` and are similar within a distance `reach`, both as logarithms.
  SmoothDeviation(std::vector<double> places, double deviation, double reach);

  std::size_t size() const { return places_.size(); }
  std::size_t index(double place) const;  // of one of the places
  // Maps independent standard normal unknowns to values at the places, and values to a function between them.
  Vector values(const double* unknowns) const;
  void settle(const Vector& values);
  double at(double place) const;

 private:
  double covariance(double a, double b) const;

  std::vector<double> places_;  // increasing, positive
  double deviation_ = 0;
  double reach_ = 1;
  Matrix lower_;
  Vector weights_;
};

class StepTimeModel::Components {
 public:
  Components(const std::vector<StepTimePoint>& points, std::uint32_t workers_per_host);
  double seconds(double workers, double local_batch) const;

 private:
  struct Straight;
  double combined(const Straight& straight, double workers, double batch, double u, double v) const;
  Straight straight(const Vector& unknowns) const;
  Vector residuals(const std::vector<StepTimePoint>& points, const Vector& unknowns) const;
  void fit_rest(const std::vector<StepTimePoint>& points);
  double without_rest(double workers, double local_batch) const;
  double rest_covariance(double workers, double batch, double other_workers, double other_batch) const;

  bool spread(double workers) const { return workers > workers_per_host_; }  // over several hosts

  std::uint32_t workers_per_host_ = 1;
  double typical_batch_ = 1;
  double typical_s_ = 1;
  Vector unknowns_;
  SmoothDeviation of_batch_;
  SmoothDeviation of_workers_;
  std::vector<StepTimePoint> points_;
  Vector rest_weights_;
};

}  // namespace elastictrain::heuristics
