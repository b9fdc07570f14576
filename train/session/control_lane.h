// Purpose: the few floats that ride on the first all-reduce of every step, summed over all ranks. They carry the
// agreement on swaps (which therefore costs no round trip) and the figures about the whole job that every worker knows.
//
// Loss, compute time and gradient norms are those of the previous step, because the lane is sent before they are known.
// Thread: the thread that reduces.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace elastictrain::session {

struct LaneInput {
  bool swap_ready = false;  // the next generation is committed and built here
  bool wants_stop = false;  // no plan can reach this worker anymore
  bool ends_data = false;   // the program's data are at an end
  double loss = 0;          // of the previous step, mean over `loss_samples`
  std::uint64_t loss_samples = 0;
  double compute_us = 0;  // of the previous step
  // Squared norm of this worker's own gradient of the previous step, if it was measured.
  bool has_local_square = false;
  double local_square = 0;
};

struct LaneOutput {
  bool all_ready = false;
  bool all_stop = false;
  bool any_ends_data = false;
  double loss = 0;
  bool has_loss = false;
  double slowest_compute_us = 0;
  std::uint32_t slowest_rank = 0;
  std::uint32_t local_squares = 0;  // number of workers that measured theirs
  double local_square_mean = 0;
};

class ControlLane {
 public:
  ControlLane(std::uint32_t rank, std::uint32_t world_size);
  std::span<float> fill(const LaneInput& input);
  LaneOutput read() const;

 private:
  // One entry per rank for the compute time, since a sum cannot show the slowest rank. Left out in very large worlds.
  static constexpr std::uint32_t kMaxTimedRanks = 1024;
  enum Field : std::size_t { kReady, kStop, kEndsData, kLossSum, kLossWeight, kSquareSum, kSquareCount, kFields };

  std::uint32_t rank_;
  std::uint32_t world_size_;
  std::vector<float> values_;
};

}  // namespace elastictrain::session
