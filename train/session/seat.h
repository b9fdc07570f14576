// Purpose: this worker's place in the current generation (its seat), replaced as a whole at a swap. Ownership: the
// session; the communicator is shared with the control plane, which may abort it. Thread: the training thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/plan_messages.h"
#include "train/comm/communicator.h"
#include "train/session/control_lane.h"
#include "train/state/progress.h"

namespace elastictrain::session {

struct Seat {
  Generation generation = 0;
  Token token{};  // of the generation
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::string reason;                      // of this generation, for the program
  std::vector<state::WorkerShare> shares;  // index = rank
  // The first step of a recovered generation was divided for an earlier one: only the shares of the workers that hold
  // its gradients count. Ascending by worker.
  bool repeats_step = false;
  std::vector<WorkerId> holders;
  protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
  float averaging_weight = 0;
  std::uint32_t first_holder = 0;  // lowest rank that began with the complete state
  std::shared_ptr<comm::Communicator> communicator;
  ControlLane lane{0, 1};

  std::uint32_t world_size() const { return static_cast<std::uint32_t>(shares.size()); }
  std::uint64_t samples() const;  // of all shares
  bool has(WorkerId worker) const;
  bool counts(WorkerId worker) const;
};

// The seat of a worker without a launcher.
Seat solo_seat(std::uint32_t batch);

// The seat of the member with this rank in `plan`.
Seat seat_of(const protocol::GenerationPlan& plan, std::uint32_t rank,
             std::shared_ptr<comm::Communicator> communicator);

// How the first step of a planned generation is divided: joiners get no samples.
std::vector<state::WorkerShare> first_shares(const protocol::GenerationPlan& plan);
// How its later steps are divided.
std::vector<state::WorkerShare> all_shares(const protocol::GenerationPlan& plan);

}  // namespace elastictrain::session
