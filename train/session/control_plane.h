// Purpose: control plane of a launched worker: the link to its agent, the state machine of its changes, the builder
// of its communicators, and the pace of its steps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "supervisor/protocol/result.h"
#include "supervisor/protocol/worker_messages.h"
#include "train/comm/data_listener.h"
#include "train/comm/mpi/mpi_world.h"
#include "train/comm/nccl/nccl_communicator.h"
#include "train/device/device.h"
#include "train/session/agent_link.h"
#include "train/session/board.h"
#include "train/session/communicator_builder.h"
#include "train/session/environment.h"
#include "train/session/process_signals.h"
#include "train/session/worker_machine.h"

// Counts committed steps and measures how long one takes, to detect that training has stopped making progress.
// Thread: step_done() and pauses() on the training thread, clock() on any.

namespace elastictrain::session {

class StepPace {
 public:
  void step_done(std::chrono::steady_clock::time_point now) {
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now - last_).count();
    const auto known = normal_us_.load(std::memory_order_relaxed);
    // The mean of about the last ten steps; the first interval does not count.
    const bool goes_on = last_ != std::chrono::steady_clock::time_point{};
    if (goes_on) normal_us_.store(known == 0 ? took : known + (took - known) / 10, std::memory_order_relaxed);
    last_ = now;
    steps_.fetch_add(1, std::memory_order_relaxed);
  }

  // No step follows for some time.
  void pauses() { last_ = {}; }

  // No step is expected: an evaluation, for example. Any thread.
  void phase_is_long(bool is) { long_phase_.store(is, std::memory_order_relaxed); }

  comm::StepClock clock() const {
    return {.steps = steps_.load(std::memory_order_relaxed),
            .normal = std::chrono::microseconds(normal_us_.load(std::memory_order_relaxed)),
            .pauses = long_phase_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<long long> normal_us_{0};
  std::atomic<bool> long_phase_{false};
  std::chrono::steady_clock::time_point last_{};
};

// The control plane of a launched worker, all but its training loop: the link to the agent, the worker
// machine, which decides what to build, answer and take, the assignment builder, and the address of the data plane. One
// lock guards all of it. The machine's effects are carried out under the same lock, so that its messages are sent in
// order.
//
// Ownership: the session. Thread: the training thread, unless a call states otherwise. Its own threads: control,
// builder. Failure: see AgentLink and CommunicatorBuilder. open() and announce() fail if the agent or an address is not
// available.

// An assignment that was taken and what was built for it. Nothing is built if the assignment is void or has no place
// for this worker.
struct TakenAssignment : WorkerMachine::NextAssignment {
  std::shared_ptr<comm::Communicator> communicator;
  std::vector<comm::StateSocket> state_sockets;
  std::shared_ptr<comm::CancelToken> cancel;  // cancelled with the assignment; ends its state transfers
};

class ControlPlane {
 public:
  using Place = protocol::StepPlace;
  using AssignmentKind = WorkerMachine::AssignmentKind;

  static Result<std::unique_ptr<ControlPlane>> open(const Environment& environment);
  ~ControlPlane();
  // Starts the control thread, which calls `on_heartbeat` for what to send.
  void start(std::function<std::vector<protocol::WorkerToAgent>()> on_heartbeat);

  // Call it before announce(): communicators then also reach this device's memory. `on_broken` is called on any thread
  // when the process must end; `make_room` as DeviceBuild's.
  void use_device(std::shared_ptr<device::Device> device, std::function<Status()> make_room,
                  std::function<void(const std::string&)> on_broken) {
    device_ = std::move(device);
    make_room_ = std::move(make_room);
    on_broken_ = std::move(on_broken);
  }
  // Opens the data plane (its listener, or MPI, which all ranks of the launch must join) and reports to the supervisor
  // that this worker can start.
  Status announce(protocol::WorkerReady ready);

  // Before the first assignment is taken. The epoch that the run has reached as far as it is known here; if that is not
  // after `epoch`, the supervisor is asked, which answers soon or, if it is away, not at all: then what was known
  // counts.
  std::uint64_t ask_epoch(std::uint64_t epoch);
  // After announce(): returns when wait_assignment() would return at once (then `epoch`), or the run is in a later
  // epoch.
  std::uint64_t await_first_assignment(std::uint64_t epoch);

  // For a worker that starts or is halted: waits for its next assignment as long as the supervisor can still send one.
  // nullopt: this worker is orphaned, and no plan can come.
  std::optional<TakenAssignment> wait_assignment();
  // Call it at the boundary at which the lane reported that all workers are ready.
  std::optional<TakenAssignment> take_agreed_assignment();
  // Waits until `arrived` returns true. Returns false if the assignment is void or no worker is left that could send
  // what is awaited. wake() makes it check again.
  bool wait_on_assignment(const std::function<bool()>& arrived);
  void wake();  // any thread

  // As in WorkerMachine. enter_collective() … collective_failed() are also called on the reducer's thread.
  bool enter_loop(Step step, bool complete);
  void state_complete();
  void step_opened();
  void batch_done();  // of a round that goes on
  // A change, a loss or a stop can only go on where all workers meet.
  bool waits_for_meeting() const;
  bool enter_collective();
  void leave_collective();
  void collective_failed(const std::string& reason, bool disagrees = false);
  void step_committed(Step step, bool everyone_ready);
  void step_discarded();
  void checkpoint_begins();
  void checkpoint_ends();
  void finished();
  bool swap_ready() const;
  bool ready_to_stop() const;  // the plan that is ready has no members
  // The plan that is built and committed here: the next boundary may bring it.
  std::optional<protocol::GenerationPlan> ready_plan() const;
  bool has_state() const;
  void enter_phase(protocol::ProgramPhase phase);  // of the program, for the heartbeats

  Board& board() { return board_; }  // any thread

  // For a worker that has left and whose process continues: waits until the agent assigns the process to another
  // worker. That worker begins as a new process does, with announce(); no heartbeat is sent before that. nullopt: the
  // process is dismissed or orphaned. All reports of the old worker must have been sent before.
  std::optional<WorkerId> park(Step last_step);

  // No plan can come anymore: the agent, or its supervisor, has been away longer than the orphan grace.
  bool orphaned() const { return orphaned_.load(); }

  void retire(std::shared_ptr<comm::Communicator> communicator) { builder_->retire(std::move(communicator)); }
  void send(const protocol::WorkerToAgent& message) { link_->send(message); }  // any thread
  // See AgentLink.
  void send_in_turn(const std::function<std::vector<protocol::WorkerToAgent>()>& make) { link_->send_in_turn(make); }
  // For a clean end, where all ranks of a launch leave. See MpiWorld::leave().
  Status leave_mpi();
  // Ends the control thread once everything is sent or the time is up, and releases the assignment's communicator.
  void close(std::chrono::milliseconds flush_time);

 private:
  using SteadyClock = std::chrono::steady_clock;

  // The state of this process between two workers.
  enum class Parking { kNot, kParked, kReassigned, kDismissed };

  explicit ControlPlane(const Environment& environment);
  void try_device();
  void hear(const protocol::WorkerDown& message);
  void hear_parked(const protocol::WorkerDown& message);
  void hear_epoch(const protocol::RunEpoch& run);
  void wait_parked(std::unique_lock<std::mutex>& lock);
  void introduce_successor();
  void built(Generation generation, const Status& status);
  // A heartbeat with the position of the training thread, and a TERM notice if one has arrived.
  // Empty: this process can go on.
  std::string why_a_new_process() const;
  std::vector<protocol::WorkerToAgent> with_news(std::vector<protocol::WorkerToAgent> messages);
  // Call with the lock held.
  void carry_out();
  TakenAssignment assign_with_build(WorkerMachine::NextAssignment next);
  // Applies `change` to the machine and carries out the effects.
  template <class Change>
  auto drive(Change change);
  Result<comm::BuildResult> build(const protocol::GenerationPlan& plan, std::uint32_t rank,
                                  const comm::CancelToken& cancel);
  Result<comm::BuildResult> build_data_plane(const comm::BuildSpec& spec, const protocol::GenerationPlan& plan,
                                             const comm::CancelToken& cancel);
  Result<comm::BuildResult> with_device(comm::BuildResult built, const protocol::GenerationPlan& plan,
                                        const comm::CancelToken& cancel);
  void decline(const std::string& why);
  comm::RunningGeneration running_before(const protocol::GenerationPlan& plan) const;

  const Environment& environment_;
  std::unique_ptr<comm::DataListener> listener_;
  std::atomic<comm::MpiWorld*> mpi_{nullptr};  // null: our own data plane
  std::shared_ptr<device::Device> device_;
  std::function<Status()> make_room_;
  std::function<void(const std::string&)> on_broken_;
  Status nccl_works_;  // on the device
  bool asked_to_go_ = false;
  std::function<std::vector<protocol::WorkerToAgent>()> on_heartbeat_;
  const std::shared_ptr<StepPace> pace_ = std::make_shared<StepPace>();
  std::atomic<bool> orphaned_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  WorkerMachine machine_;
  Place place_ = Place::kStarting;
  protocol::ProgramPhase phase_ = protocol::ProgramPhase::kNone;
  SteadyClock::time_point place_since_ = SteadyClock::now();  // and in this phase
  std::shared_ptr<comm::Communicator> current_;               // of the machine's generation; to be aborted
  std::vector<WorkerId> current_members_;                     // index = rank
  std::shared_ptr<comm::CancelToken> current_cancel_;
  Parking parking_ = Parking::kNot;
  std::uint64_t run_epoch_ = 0;      // as far as it is known
  std::uint64_t epoch_answers_ = 0;  // so far
  WorkerId successor_;               // the worker of the machine since kReassigned

  Board board_{[this](const protocol::WorkerToAgent& message) { link_->send(message); }};
  std::optional<TermNotice> term_;
  std::unique_ptr<AgentLink> link_;
  std::unique_ptr<CommunicatorBuilder> builder_;
};

std::optional<std::uint32_t> rank_in(const protocol::GenerationPlan& plan, WorkerId worker);

// Ranks of the donors in the order of their slices; ranks of the joiners.
std::vector<std::uint32_t> donor_ranks(const protocol::GenerationPlan& plan);
std::vector<std::uint32_t> joiner_ranks(const protocol::GenerationPlan& plan);

// Time limit for a build or a state transfer of this plan.
std::chrono::milliseconds time_limit(const protocol::GenerationPlan& plan);

}  // namespace elastictrain::session
