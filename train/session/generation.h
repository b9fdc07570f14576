// Purpose: the generation in which this worker is a member: its rank, shares and communicator, its part of the
// control lane, and the exchange of all of these at a boundary or after a loss.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "supervisor/protocol/plan_messages.h"
#include "train/comm/communicator.h"
#include "train/session/control_lane.h"
#include "train/state/progress.h"

// This worker's place in the current generation (its assignment), replaced as a whole at a swap. Ownership: the
// session; the communicator is shared with the control plane, which may abort it. Thread: the training thread.

namespace elastictrain::session {

struct Assignment {
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

// The assignment of a worker without a launcher.
Assignment solo_assignment(std::uint32_t batch);

// The assignment of the member with this rank in `plan`.
Assignment assignment_of(const protocol::GenerationPlan& plan, std::uint32_t rank,
                         std::shared_ptr<comm::Communicator> communicator);

// How the first step of a planned generation is divided: joiners get no samples.
std::vector<state::WorkerShare> first_shares(const protocol::GenerationPlan& plan);
// How its later steps are divided.
std::vector<state::WorkerShare> all_shares(const protocol::GenerationPlan& plan);

// This worker's part in the control lane of each step: what it puts in, and what the last sum said.
// Ownership: the worker. Thread: fill() on the thread that reduces, the rest on the training thread. Failure: none.

class ControlPlane;

class StepLane {
 public:
  // `plane`: null without a launcher. `assignment`: the current one.
  StepLane(ControlPlane* plane, Assignment& assignment) : plane_(plane), assignment_(assignment) {}

  // From the next lane on.
  void end_data() { ends_data_ = true; }

  bool ends_data() const { return ends_data_; }
  // In all lanes until the next call.
  void claim(const Claim& claim) { claim_ = claim; }

  std::span<float> fill();
  const LaneOutput& read() { return output_ = assignment_.lane.read(); }
  const LaneOutput& last() const { return output_; }
  // The figures of the committed step, which the next step's lane carries.
  void report(const LaneInput& figures) { input_ = figures; }

 private:
  ControlPlane* const plane_;
  Assignment& assignment_;
  std::atomic<bool> ends_data_{false};
  LaneInput input_;
  Claim claim_;
  LaneOutput output_;
};

// This worker's assignment and the communicators behind it, through every exchange: at a boundary the old
// communicator stays until the new generation has reduced, because other workers may still be reading from it; after a
// loss nobody does.
//
// Ownership: the worker; communicators are given back to the control plane, which destroys them in the background.
// Thread: the training thread. Failure: none.

class ControlPlane;

class AssignmentExchange {
 public:
  explicit AssignmentExchange(ControlPlane* plane) : plane_(plane) {}  // null without a launcher

  // The object stays the same through all exchanges.
  Assignment& assignment() { return assignment_; }
  const Assignment& assignment() const { return assignment_; }

  void take_first(Assignment assignment) { assignment_ = std::move(assignment); }
  // Both return the shares of the assignment before.
  std::vector<state::WorkerShare> move_to(Assignment next);     // at a boundary
  std::vector<state::WorkerShare> replace_by(Assignment next);  // after a loss

  // The buckets of a step are reduced in the current generation.
  void step_reduced();
  void step_committed() { assignment_.repeats_step = false; }

  // This worker has no assignment anymore; its communicators close in the background, or at once.
  void leave();
  void close();

 private:
  ControlPlane* const plane_;
  Assignment assignment_;
  std::shared_ptr<comm::Communicator> old_communicator_;
};

}  // namespace elastictrain::session
