#include "train/session/step_division.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/session/course.h"

namespace elastictrain::session {

std::vector<float> StepDivision::weights(const Seat& seat) const {
  std::vector<float> weights(seat.world_size());
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    const auto of_rank = [&](const state::WorkerShare& share) { return share.worker == seat.shares[rank].worker; };
    const auto share = std::find_if(shares.begin(), shares.end(), of_rank);
    if (share == shares.end() || counted == 0) continue;
    const auto count = static_cast<double>(counts[static_cast<std::size_t>(share - shares.begin())]);
    weights[rank] = static_cast<float>(count / static_cast<double>(counted));
  }
  return weights;
}

std::uint32_t StepDivision::workers_with_samples() const {
  const auto works = [](const state::WorkerShare& share) { return share.samples != 0 && !share.is_lost; };
  return static_cast<std::uint32_t>(std::count_if(shares.begin(), shares.end(), works));
}

double StepDivision::mean_inverse_share() const {
  double sum = 0;
  double workers = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const auto samples = static_cast<double>(cut.count(rank));
    if (samples == 0 || shares[rank].is_lost) continue;
    sum += 1 / samples;
    ++workers;
  }
  return workers > 0 ? sum / workers : 0;
}

void StepDivision::keep_used(std::span<const std::uint64_t> used_by_rank) {
  state::Cut kept{.epoch = cut.epoch, .first_of_epoch = cut.first_of_epoch};
  uncounted.clear();
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const std::uint64_t taken = std::min(used_by_rank[rank], counts[rank]);
    const auto part = cut.part(rank);
    for (const auto& piece : state::slice(part, 0, taken)) kept.pieces.push_back(piece);
    for (const auto& piece : state::slice(part, taken, cut.count(rank) - taken)) uncounted.push_back(piece);
    kept.counts.push_back(taken);
    kept.total += taken;
  }
  counted = kept.total;
  if (my_count != 0) my_count = kept.counts[my_rank];
  used = std::move(kept);
}

StepDivision divide_step(const Course& course, const Seat& seat, WorkerId self, bool inputs_are_kept) {
  StepDivision step{.cut = course.cut_next(), .shares = course.next_shares()};
  for (std::size_t rank = 0; rank < step.shares.size(); ++rank) {
    const WorkerId worker = step.shares[rank].worker;
    // Without copies no worker can repeat an all-reduce: the step is committed without samples, on all workers alike.
    const bool counts = !step.shares[rank].is_lost && (!seat.repeats_step || (inputs_are_kept && seat.counts(worker)));
    if (worker == self) step.my_rank = rank;
    step.counts.push_back(counts ? step.cut.count(rank) : 0);
    if (counts) {
      step.counted += step.cut.count(rank);
      if (worker == self) step.my_count = step.cut.count(rank);
    } else {
      const auto part = step.cut.part(rank);
      step.uncounted.insert(step.uncounted.end(), part.begin(), part.end());
    }
  }
  ET_CHECK(step.counted <= step.cut.total, "a step counts no more samples than it takes");
  ET_CHECK(step.my_count <= step.counted, "a worker's share is part of the samples that count");
  return step;
}

}  // namespace elastictrain::session
