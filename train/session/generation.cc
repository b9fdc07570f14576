#include "train/session/generation.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/check.h"
#include "train/session/control_plane.h"
#include "train/session/session_communicators.h"

namespace elastictrain::session {

std::uint64_t Assignment::samples() const {
  std::uint64_t sum = 0;
  for (const auto& share : shares) sum += share.samples;
  return sum;
}

bool Assignment::has(WorkerId worker) const {
  return std::any_of(shares.begin(), shares.end(), [&](const auto& share) { return share.worker == worker; });
}

bool Assignment::counts(WorkerId worker) const {
  return !repeats_step || std::binary_search(holders.begin(), holders.end(), worker);
}

Assignment solo_assignment(std::uint32_t batch) {
  Assignment assignment;
  assignment.reason = "alone, without a launcher";
  assignment.shares = {{WorkerId{}, batch}};
  assignment.communicator = std::make_shared<SoloCommunicator>(0);
  return assignment;
}

Assignment assignment_of(const protocol::GenerationPlan& plan, std::uint32_t rank,
                         std::shared_ptr<comm::Communicator> communicator) {
  Assignment assignment;
  assignment.generation = plan.generation;
  assignment.token = plan.token;
  assignment.rank = rank;
  assignment.local_rank = plan.members[rank].local_rank;
  assignment.reason = plan.reason;
  assignment.repeats_step = plan.fence != 0;
  assignment.synchronization = plan.synchronization;
  assignment.averaging_weight = static_cast<float>(plan.averaging_weight);
  const auto holds = [](const protocol::Member& member) { return !member.joiner; };
  const auto first = std::find_if(plan.members.begin(), plan.members.end(), holds);
  if (first != plan.members.end()) assignment.first_holder = static_cast<std::uint32_t>(first - plan.members.begin());
  assignment.shares = all_shares(plan);
  for (const auto& member : plan.members) {
    if (assignment.repeats_step && !member.joiner) assignment.holders.push_back(member.worker);
  }
  std::sort(assignment.holders.begin(), assignment.holders.end());
  assignment.communicator = std::move(communicator);
  const bool averages_pairs = plan.synchronization == protocol::Synchronization::kPairAveraging;
  assignment.lane = ControlLane(rank, assignment.world_size(), averages_pairs);
  return assignment;
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
  return assignment_.lane.fill(input_);
}

std::vector<state::WorkerShare> AssignmentExchange::move_to(Assignment next) {
  ET_CHECK(!old_communicator_, "the generation before the last one has ended");
  old_communicator_ = std::move(assignment_.communicator);
  return std::exchange(assignment_, std::move(next)).shares;
}

std::vector<state::WorkerShare> AssignmentExchange::replace_by(Assignment next) {
  plane_->retire(std::move(assignment_.communicator));
  plane_->retire(std::move(old_communicator_));
  return std::exchange(assignment_, std::move(next)).shares;
}

void AssignmentExchange::step_reduced() {
  if (old_communicator_) plane_->retire(std::move(old_communicator_));
}

void AssignmentExchange::leave() {
  plane_->retire(std::move(assignment_.communicator));
  plane_->retire(std::move(old_communicator_));
  assignment_ = {};
}

void AssignmentExchange::close() {
  assignment_.communicator.reset();
  old_communicator_.reset();
}

}  // namespace elastictrain::session
