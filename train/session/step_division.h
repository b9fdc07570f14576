// Purpose: the division of a step among the workers, and the shares that count in the current seat. Pure.
// Failure: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "train/session/seat.h"
#include "train/state/progress.h"
#include "train/state/sampler.h"

namespace elastictrain::session {

class Course;

struct StepDivision {
  state::Cut cut;
  std::vector<state::WorkerShare> shares;  // as divided by the generation that opened it first
  std::size_t my_rank = 0;                 // in it; meaningful if this worker has samples
  // Which of these shares count in the current seat.
  std::uint64_t my_count = 0;
  std::uint64_t counted = 0;
  std::vector<state::Interval> uncounted;
  std::vector<std::uint64_t> counts;  // by rank: samples of this share that count
  Step steps = 1;                     // that the commit advances by
  std::optional<state::Cut> used;     // the samples that count, if they are not all of `cut`

  const state::Cut& used_cut() const { return used ? *used : cut; }
  // Of each share that counts, only the first samples do, as many as its rank has used; the rest returns to the pool.
  void keep_used(std::span<const std::uint64_t> used_by_rank);

  // The weight of this worker's gradient in the sum. Requires samples.
  float my_weight() const { return static_cast<float>(static_cast<double>(my_count) / static_cast<double>(counted)); }
  // That of every worker in `seat`, by rank; 0 for those without samples that count.
  std::vector<float> weights(const Seat& seat) const;
  std::uint32_t workers_with_samples() const;
  // Over these workers, the mean of 1 / samples of their own. 0 without samples.
  double mean_inverse_share() const;
};

// The step that follows the committed one. `inputs_are_kept`: workers can repeat its all-reduces.
StepDivision divide_step(const Course& course, const Seat& seat, WorkerId self, bool inputs_are_kept);

}  // namespace elastictrain::session
