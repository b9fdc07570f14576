// Purpose: averaging of models in pairs: the pairs of a step, as every worker computes them, and the exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/peers/store_access.h"
#include "train/session/generation.h"
#include "train/session/model_exchange.h"
#include "train/session/run_progress.h"

// Pairs of workers that average their models with each other in a step of pair averaging. Pure: every worker
// computes the same pairs from the reachability of all ranks and the step number, so no messages are needed. (In KungFu
// each worker draws a random peer, algorithms B6; here both ends of a pair know each other, and both models move.)
//
// Ranks, in a random order, each take a random free rank that they can reach. A rank that finds none stays alone in
// this step. Over many steps every reachable pair is chosen, so what one worker learned spreads to all as long as the
// reachable pairs connect them.

namespace elastictrain::peers {

// The ranks that each rank can reach.
class Reach {
 public:
  Reach() = default;
  // One bit for each peer, lowest first; one row for each rank, as an all-gather returns them.
  Reach(std::span<const std::byte> rows, std::uint32_t world_size);

  static std::size_t row_bytes(std::uint32_t world_size) { return (world_size + 7) / 8; }
  std::uint32_t world_size() const { return static_cast<std::uint32_t>(peers_.size()); }
  const std::vector<std::uint32_t>& peers(std::uint32_t rank) const { return peers_[rank]; }

 private:
  std::vector<std::vector<std::uint32_t>> peers_;  // pairs that reach each other in both directions
};

// The partner of each rank, or the rank itself if it stays alone.
std::vector<std::uint32_t> match_pairs(const Reach& reach, std::uint64_t step);

// The exchange of models with one other worker. Where all meet both take part: the partner is a function of
// the step and of the reachability of all ranks, which is gathered once in each generation. Between two fences a worker
// reads the model that another one has published (AD-PSGD), and waits for nothing.
//
// Ownership: the worker. Thread: the thread that reduces; publish_model() on the training thread, not at the same time.
// Failure: that of the communicator; a model that cannot be read is not averaged with.

class PairAveraging {
 public:
  PairAveraging(session::ModelExchange& models, const session::Assignment& assignment,
                const session::RunProgress& run_progress, StoreAccess& store)
      : models_(models), assignment_(assignment), run_progress_(run_progress), store_(store) {}

  Status swap_models(bool contributes);
  // With the model of a random other worker, if the one that was asked for has arrived, and asks for the next.
  void take_read_model();
  void publish_model();

 private:
  Status learn_reach();

  session::ModelExchange& models_;
  const session::Assignment& assignment_;
  const session::RunProgress& run_progress_;
  StoreAccess& store_;
  std::vector<float> memory_;  // for the next model that arrives, or is published
  std::minstd_rand random_;
  std::optional<Reach> reach_;
  Generation reach_of_ = 0;  // the generation for which `reach_` holds
};

}  // namespace elastictrain::peers
