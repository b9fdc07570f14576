#include "train/session/seat.h"

#include <utility>

#include "train/session/solo_communicator.h"

namespace elastictrain::session {

Seat solo_seat(std::uint32_t batch) {
  Seat seat;
  seat.shares = {batch};
  seat.first_shares = {batch};
  seat.communicator = std::make_unique<SoloCommunicator>(0);
  return seat;
}

Seat seat_of(const protocol::GenerationPlan& plan, std::uint32_t rank,
             std::unique_ptr<comm::Communicator> communicator) {
  Seat seat;
  seat.generation = plan.generation;
  seat.rank = rank;
  seat.local_rank = plan.members[rank].local_rank;
  const bool state_exists = !plan.donors.empty();
  for (const auto& member : plan.members) {
    seat.shares.push_back(member.share);
    seat.first_shares.push_back(state_exists && member.joiner ? 0 : member.share);
  }
  seat.communicator = std::move(communicator);
  seat.lane = ControlLane(rank, static_cast<std::uint32_t>(plan.members.size()));
  return seat;
}

}  // namespace elastictrain::session
