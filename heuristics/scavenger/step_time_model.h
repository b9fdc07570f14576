// Purpose: the time of a step for a number of workers and of samples per worker, fitted to a few measured steps
// (Scavenger, algorithms F).
//
// Two forms are the paper's, t = c0 + c1 * batch + c2 * workers by least squares, with the batch of one worker or the
// global one. The third is ours, for effects that a plane cannot describe. A step consists of computing and
// communicating, which overlap (the power sum of Pollux). Computing depends on the worker's batch, communicating on the
// number of workers. Both deviate from a straight line (a kernel that suits one batch, a slow pair of hosts), so that a
// measurement at one size informs the prediction for the same batch at another. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heuristics/fit/least_squares.h"

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

}  // namespace elastictrain::heuristics
