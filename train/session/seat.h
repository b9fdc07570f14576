// Purpose: this worker's place in the current generation, exchanged as a whole at a swap.
// Ownership: the session; the communicator is shared with the control plane, which may abort it. Thread: training
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "supervisor/protocol/message.h"
#include "train/comm/communicator.h"
#include "train/session/control_lane.h"
#include "train/session/pair_matching.h"
#include "train/state/progress.h"

namespace elastictrain::session {

struct Seat {
  Generation generation = 0;
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::vector<state::WorkerShare> shares;  // index = rank
  // The first step of a recovered generation was cut for another one: only the parts of those who hold its gradients
  // count, ascending by worker.
  bool repeats_step = false;
  std::vector<WorkerId> holders;
  protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
  float averaging_weight = 0;
  std::uint32_t first_holder = 0;  // lowest rank that began with all of the state
  std::shared_ptr<comm::Communicator> communicator;
  ControlLane lane{0, 1};
  std::vector<std::byte> stores;  // the entries of all ranks' model stores, from the first step on
  std::optional<Reach> reach;     // once models were swapped in pairs

  std::uint32_t world_size() const { return static_cast<std::uint32_t>(shares.size()); }
  bool has(WorkerId worker) const;
  bool counts(WorkerId worker) const;
};

// Alone, without a launcher.
Seat solo_seat(std::uint32_t batch);

// The place that `plan` gives to the member of rank `rank`.
Seat seat_of(const protocol::GenerationPlan& plan, std::uint32_t rank,
             std::shared_ptr<comm::Communicator> communicator);

// How the first step of a planned generation is cut: joiners get nothing.
std::vector<state::WorkerShare> first_shares(const protocol::GenerationPlan& plan);

}  // namespace elastictrain::session
