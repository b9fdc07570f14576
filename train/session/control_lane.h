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

// What a worker says of the round that ends and of the one after it (run_progress.h).
struct Claim {
  std::uint64_t used = 0;     // samples of this step
  std::uint32_t steps = 0;    // in as many batches
  std::uint32_t batches = 0;  // that it wants for the next step; 0: it cannot run ahead of the others
};

struct LaneInput {
  bool swap_ready = false;  // the next generation is committed and built here
  bool plan_stops = false;  // and has no members: the run stops
  bool wants_stop = false;  // no plan can reach this worker anymore
  bool ends_data = false;   // the program's data are at an end
  double loss = 0;          // of the previous step, mean over `loss_samples`
  std::uint64_t loss_samples = 0;
  double compute_us = 0;  // of the previous step
  // Squared norm of this worker's own gradient of the previous step, if it was measured.
  bool has_local_square = false;
  double local_square = 0;
  Claim claim;
};

struct LaneOutput {
  bool all_ready = false;
  bool plan_stops = false;  // what all are ready for
  bool all_stop = false;
  bool any_ends_data = false;
  double loss = 0;
  bool has_loss = false;
  double slowest_compute_us = 0;
  std::uint32_t slowest_rank = 0;
  std::uint32_t local_squares = 0;  // number of workers that measured theirs
  double local_square_mean = 0;
  std::vector<Claim> claims;  // by rank; empty where the lane has none
};

class ControlLane {
 public:
  // `has_claims`: ignored in very large worlds.
  ControlLane(std::uint32_t rank, std::uint32_t world_size, bool has_claims = false);
  std::span<float> fill(const LaneInput& input);
  LaneOutput read() const;

 private:
  // One entry per rank for the compute time, since a sum cannot show the slowest rank. Left out in very large worlds.
  static constexpr std::uint32_t kMaxTimedRanks = 1024;
  static constexpr std::size_t kClaimFields = 3;
  enum Field : std::size_t {
    kReady,
    kPlanStops,
    kStop,
    kEndsData,
    kLossSum,
    kLossWeight,
    kSquareSum,
    kSquareCount,
    kFields
  };

  bool times_ranks() const { return world_size_ <= kMaxTimedRanks; }
  std::size_t claims_at() const { return kFields + world_size_; }

  std::uint32_t rank_;
  std::uint32_t world_size_;
  bool has_claims_;
  std::vector<float> values_;
};

}  // namespace elastictrain::session
