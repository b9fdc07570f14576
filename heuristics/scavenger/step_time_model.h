// Purpose: how long a step takes with so many workers and so many samples for each, fitted to a few measured steps
// (Scavenger, algorithms F).
//
// Two forms are the paper's, t = c0 + c1 * batch + c2 * workers by least squares, with the batch of one worker or the
// global one. The third is ours, for what measurements show and a plane cannot: a step is computing and communicating,
// which overlap (the power sum of Pollux); computing depends on the worker's batch, communicating on the number of
// workers; and both deviate from a straight line in ways of their own (a kernel that suits one batch, a slow pair of
// hosts), so that what is seen at one size says something about the same batch at another. Pure.
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
  // Points that are not positive are left out; nothing where none is left. Several points of one (workers, batch) are
  // all used. Any number of points gives a model, few give a vague one. Up to `workers_per_host` workers are taken to
  // sit on one host, where communicating is another matter; only kComponents makes the difference.
  static std::optional<StepTimeModel> fit(StepTimeForm form, const std::vector<StepTimePoint>& points,
                                          std::uint32_t workers_per_host = 1);

  // Always positive, also far from what was measured.
  double seconds(std::uint32_t workers, double local_batch) const;
  StepTimeForm form() const { return form_; }
  // c0, c1, c2 of the paper's forms; empty for ours.
  const Vector& coefficients() const { return coefficients_; }

  class Components;

 private:
  StepTimeForm form_ = StepTimeForm::kComponents;
  Vector coefficients_;
  double least_ = 0;  // of the measured times: the paper's plane may fall below zero
  std::shared_ptr<const Components> components_;
};

}  // namespace elastictrain::heuristics
