// Purpose: this worker's place in the current generation, exchanged as a whole at a swap.
// Ownership: the session; the communicator lives and dies with the seat. Thread: training thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "supervisor/protocol/message.h"
#include "train/comm/communicator.h"
#include "train/session/control_lane.h"

namespace elastictrain::session {

struct Seat {
  Generation generation = 0;
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::vector<std::uint32_t> shares;        // index = rank
  std::vector<std::uint32_t> first_shares;  // the same with nothing for joiners, for the first step
  bool first_step = true;
  std::unique_ptr<comm::Communicator> communicator;
  ControlLane lane{0, 1};

  const std::vector<std::uint32_t>& shares_now() const { return first_step ? first_shares : shares; }
};

// Alone, without a launcher.
Seat solo_seat(std::uint32_t batch);

// The place that `plan` gives to the member of rank `rank`.
Seat seat_of(const protocol::GenerationPlan& plan, std::uint32_t rank,
             std::unique_ptr<comm::Communicator> communicator);

}  // namespace elastictrain::session
