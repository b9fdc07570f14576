#include "train/session/generation.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/session/control_plane.h"
#include "train/session/session_communicators.h"

namespace elastictrain::session {

std::uint64_t Seat::samples() const {
  std::uint64_t sum = 0;
  for (const auto& share : shares) sum += share.samples;
  return sum;
}

bool Seat::has(WorkerId worker) const {
  return std::any_of(shares.begin(), shares.end(), [&](const auto& share) { return share.worker == worker; });
}

bool Seat::counts(WorkerId worker) const {
  return !repeats_step || std::binary_search(holders.begin(), holders.end(), worker);
}

Seat solo_seat(std::uint32_t batch) {
  Seat seat;
  seat.reason = "alone, without a launcher";
  seat.shares = {{WorkerId{}, batch}};
  seat.communicator = std::make_shared<SoloCommunicator>(0);
  return seat;
}

Seat seat_of(const protocol::GenerationPlan& plan, std::uint32_t rank,
             std::shared_ptr<comm::Communicator> communicator) {
  Seat seat;
  seat.generation = plan.generation;
  seat.token = plan.token;
  seat.rank = rank;
  seat.local_rank = plan.members[rank].local_rank;
  seat.reason = plan.reason;
  seat.repeats_step = plan.fence != 0;
  seat.synchronization = plan.synchronization;
  seat.averaging_weight = static_cast<float>(plan.averaging_weight);
  const auto holds = [](const protocol::Member& member) { return !member.joiner; };
  const auto first = std::find_if(plan.members.begin(), plan.members.end(), holds);
  if (first != plan.members.end()) seat.first_holder = static_cast<std::uint32_t>(first - plan.members.begin());
  seat.shares = all_shares(plan);
  for (const auto& member : plan.members) {
    if (seat.repeats_step && !member.joiner) seat.holders.push_back(member.worker);
  }
  std::sort(seat.holders.begin(), seat.holders.end());
  seat.communicator = std::move(communicator);
  const bool averages_pairs = plan.synchronization == protocol::Synchronization::kPairAveraging;
  seat.lane = ControlLane(rank, seat.world_size(), averages_pairs);
  return seat;
}

std::vector<state::WorkerShare> first_shares(const protocol::GenerationPlan& plan) {
  const bool state_exists = !plan.donors.empty();
  std::vector<state::WorkerShare> shares;
  for (const auto& member : plan.members) {
    shares.push_back({member.worker, state_exists && member.joiner ? 0 : member.share});
  }
  return shares;
}

std::vector<state::WorkerShare> all_shares(const protocol::GenerationPlan& plan) {
  std::vector<state::WorkerShare> shares;
  for (const auto& member : plan.members) shares.push_back({member.worker, member.share});
  return shares;
}

std::span<float> StepLane::fill() {
  input_.swap_ready = plane_ != nullptr && plane_->swap_ready();
  input_.plan_stops = plane_ != nullptr && plane_->ready_to_stop();
  input_.wants_stop = plane_ != nullptr && plane_->orphaned();
  input_.ends_data = ends_data_;
  input_.claim = claim_;
  return seat_.lane.fill(input_);
}

std::vector<state::WorkerShare> Seating::move_to(Seat next) {
  ET_CHECK(!old_communicator_, "the generation before the last one has ended");
  old_communicator_ = std::move(seat_.communicator);
  return std::exchange(seat_, std::move(next)).shares;
}

std::vector<state::WorkerShare> Seating::replace_by(Seat next) {
  plane_->retire(std::move(seat_.communicator));
  plane_->retire(std::move(old_communicator_));
  return std::exchange(seat_, std::move(next)).shares;
}

void Seating::step_reduced() {
  if (old_communicator_) plane_->retire(std::move(old_communicator_));
}

void Seating::leave() {
  plane_->retire(std::move(seat_.communicator));
  plane_->retire(std::move(old_communicator_));
  seat_ = {};
}

void Seating::close() {
  seat_.communicator.reset();
  old_communicator_.reset();
}

}  // namespace elastictrain::session
