// Purpose: everything of a launched worker that is not the training loop: the link to the agent, the worker machine
// that decides what is built, answered and taken, the builder and where the data plane is reached. All of it is driven
// under one lock, in which the machine's effects are carried out as well, so that what it says leaves in its order.
//
// Ownership: the session. Thread: the training thread, unless a call says otherwise. Its own threads: control, builder.
// Failure: see AgentLink and SeatBuilder; open() and announce() fail where the agent or an address is not there.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"
#include "train/comm/data_listener.h"
#include "train/comm/mpi/mpi_world.h"
#include "train/device/device.h"
#include "train/session/agent_link.h"
#include "train/session/environment.h"
#include "train/session/seat_builder.h"
#include "train/session/step_pace.h"
#include "train/session/term_notice.h"
#include "train/session/worker_machine.h"

namespace elastictrain::session {

// A seat that was taken, with what was built for it: nothing where this worker has no place in it or it is void.
struct TakenSeat : WorkerMachine::NextSeat {
  std::shared_ptr<comm::Communicator> communicator;
  std::vector<comm::StateSocket> state_sockets;
  std::shared_ptr<comm::CancelToken> cancel;  // cancelled with the seat: ends its state transfers
};

class ControlPlane {
 public:
  using Place = protocol::StepPlace;
  using SeatKind = WorkerMachine::SeatKind;

  // `on_heartbeat` is called on the control thread.
  static Result<std::unique_ptr<ControlPlane>> open(const Environment& environment,
                                                    std::function<std::vector<protocol::WorkerUp>()> on_heartbeat);
  ~ControlPlane();

  // Before announce(): communicators also reach this device's memory. `on_wedged`, on any thread: the process has to
  // go.
  void use_device(std::shared_ptr<device::Device> device, std::function<void(const std::string&)> on_wedged) {
    device_ = std::move(device);
    on_wedged_ = std::move(on_wedged);
  }
  // Reaches the data plane (its listener; MPI, which takes all ranks of the launch) and tells the supervisor that this
  // worker can start.
  Status announce(protocol::WorkerReady ready);

  // For a worker at the start or one that is halted: waits for its next seat as long as somebody may bring one.
  // Nothing: this worker is orphaned, and no plan can come.
  std::optional<TakenSeat> wait_seat();
  // At the boundary at which the lane said that everyone is ready.
  std::optional<TakenSeat> take_agreed_seat();
  // Until `arrived` (false when the seat is void, or nobody is left who could say so). wake() makes it look again.
  bool wait_on_seat(const std::function<bool()>& arrived);
  void wake();  // any thread

  // As the worker machine's; enter_collective() … collective_failed() also on the reducer's thread.
  bool enter_loop(Step step, bool complete);
  void state_complete();
  void step_opened();
  bool enter_collective();
  void leave_collective();
  void collective_failed(const std::string& reason);
  void step_committed(Step step, bool everyone_ready);
  void step_discarded();
  void checkpoint_begins();
  void checkpoint_ends();
  void finished();
  bool swap_ready() const;
  bool has_state() const;

  // This worker has left and its process goes on: waits until the agent makes it another one, which begins as a new
  // process does: with announce(), up to which no heartbeat is sent. Nothing: it is dismissed, or orphaned. What was to
  // be told of the old worker has been told before.
  std::optional<WorkerId> park(Step last_step);

  // No plan can come any more: the agent, or its supervisor, has been away for the orphan grace.
  bool orphaned() const { return orphaned_.load(); }

  void retire(std::shared_ptr<comm::Communicator> communicator) { builder_->retire(std::move(communicator)); }
  void send(const protocol::WorkerUp& message) { link_->send(message); }  // any thread
  // As the link's.
  void send_in_turn(const std::function<std::vector<protocol::WorkerUp>()>& make) { link_->send_in_turn(make); }
  // At an end in order, where all ranks of a launch leave: as MpiWorld::leave().
  Status leave_mpi();
  // Ends the control thread once everything is sent or the time is up, and lets go of the seat's communicator.
  void close(std::chrono::milliseconds flush_time);

 private:
  using SteadyClock = std::chrono::steady_clock;

  // Where this process stands between two workers.
  enum class Parking { kNot, kParked, kReseated, kDismissed };

  explicit ControlPlane(const Environment& environment);
  void hear(const protocol::WorkerDown& message);
  void hear_parked(const protocol::WorkerDown& message);
  void wait_parked(std::unique_lock<std::mutex>& lock);
  void introduce_successor();
  void built(Generation generation, const Status& status);
  // A heartbeat with the place of the training thread, and the notice that may have come.
  std::vector<protocol::WorkerUp> with_news(std::vector<protocol::WorkerUp> messages);
  // With the lock held.
  void carry_out();
  TakenSeat seat_with_build(WorkerMachine::NextSeat next);
  // Runs `change` on the machine and what follows from it.
  template <class Change>
  auto drive(Change change);
  Result<comm::BuildResult> build(const protocol::GenerationPlan& plan, std::uint32_t rank,
                                  const comm::CancelToken& cancel);
  Result<comm::BuildResult> build_data_plane(const comm::BuildSpec& spec, const protocol::GenerationPlan& plan,
                                             const comm::CancelToken& cancel);
  Result<comm::BuildResult> with_device(comm::BuildResult built, const protocol::GenerationPlan& plan,
                                        const comm::CancelToken& cancel) const;
  comm::RunningGeneration running_before(const protocol::GenerationPlan& plan) const;

  const Environment& environment_;
  std::unique_ptr<comm::DataListener> listener_;
  std::atomic<comm::MpiWorld*> mpi_{nullptr};  // none: our own data plane
  std::shared_ptr<device::Device> device_;
  std::function<void(const std::string&)> on_wedged_;
  StepPace pace_;
  std::atomic<bool> orphaned_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  WorkerMachine machine_;
  Place place_ = Place::kStarting;
  SteadyClock::time_point place_since_ = SteadyClock::now();
  std::shared_ptr<comm::Communicator> current_;  // of the machine's generation, to be aborted
  std::vector<WorkerId> current_members_;        // index = rank
  std::shared_ptr<comm::CancelToken> current_cancel_;
  Parking parking_ = Parking::kNot;
  WorkerId successor_;  // the worker that the machine is of since kReseated

  std::optional<TermNotice> term_;
  std::unique_ptr<AgentLink> link_;
  std::unique_ptr<SeatBuilder> builder_;
};

std::optional<std::uint32_t> rank_in(const protocol::GenerationPlan& plan, WorkerId worker);

// Ranks of the donors in the order of their slices, and of the joiners.
std::vector<std::uint32_t> donor_ranks(const protocol::GenerationPlan& plan);
std::vector<std::uint32_t> joiner_ranks(const protocol::GenerationPlan& plan);

// How long a build or a state transfer of this plan may take.
std::chrono::milliseconds time_limit(const protocol::GenerationPlan& plan);

}  // namespace elastictrain::session
