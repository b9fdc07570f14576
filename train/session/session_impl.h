// Purpose: implementation of elastictrain::Session, with the check of the sizes that a program passes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elastictrain/session.hpp"
#include "train/session/control_plane.h"
#include "train/session/lifecycle.h"
#include "train/session/program.h"
#include "train/session/worker_components.h"

// Refuses sizes that no memory has, before they are used: a product that wraps around, or a negative number in
// a program's own arithmetic. Failure: SessionError with the call's name.

namespace elastictrain::session {

inline constexpr std::size_t kMaxBytes = std::size_t{1} << 47;  // of a process

// `each` is above 0.
inline std::size_t bytes_of(const char* call, std::size_t count, std::size_t each) {
  if (count <= kMaxBytes / each) return count * each;
  throw SessionError(std::string(call) + ": " + std::to_string(count) + (each == 1 ? " bytes" : " elements") +
                     " are more than any memory holds; check the size that is passed");
}

}  // namespace elastictrain::session

// What elastictrain::Session consists of. The calls of Session are defined in session_*.cc on these members, without
// forwarding: they check what the program passes and use the components of the worker that this process is
// (worker_components.h). The functions here are what several calls share. Threads, sockets and plans belong to the
// control plane (control_plane.h).
//
// Order within a step: next_batch() divides the step among the ranks, the first bucket carries the control lane,
// commit_step() advances the replicated numbers and, if the lane reported that all workers are ready, exchanges the
// assignment. A recovery exchanges the assignment in the middle of a step and repeats the step's all-reduces. The
// program sees a new assignment only at a boundary.

namespace elastictrain::peers {
class Peers;
}

namespace elastictrain {

class __attribute__((visibility("hidden"))) Session::Impl {
 public:
  Impl();
  ~Impl();

  void add_state(std::string_view name, std::span<std::byte> bytes, std::optional<state::TensorType> type);
  std::size_t tensor_bytes(std::string_view name, const state::TensorType& type) const;
  void open_plane();
  bool start_launched();
  void start_alone();
  void announce();
  void reserve_for_joining();

  // The step.
  session::Bucket& add_narrow(void* gradient, std::size_t count, DataType type);
  void all_reduce_typed(void* gradient, std::size_t count, DataType type, bool in_background);
  void all_reduce_device_typed(void* gradient, std::size_t count, DataType type, void* stream, bool in_background);
  void reduce_host(session::Bucket& bucket, bool in_background);
  void reduce_device(session::Bucket& bucket, void* stream, bool in_background);
  void add_elsewhere(StartElsewhere start, FinishElsewhere finish);
  void settle(Status status, bool frees_state);
  // Until no bucket is in the background.
  void settle_background();
  void finish_sums();
  void send_first_state(bool in_background);
  void free_state();
  bool reach_next_step();
  Batch open_batch() const;
  session::RoundPace pace_of_round() const;
  bool may_run_ahead() const;
  void run_ahead();
  void end_batch();
  void commit_progress(const StepMetrics& metrics);
  void end_of_step(bool at_boundary);
  std::exception_ptr after_step();
  void pass_boundary(bool hook_was_interrupted);
  void discard_step();
  void account_for_dropped_samples();

  // After a loss, and at the end of the data (session_end.cc).
  void rejoin();
  void finish_training();
  Status finish_together();
  void report_finished();
  void report_last_step();
  Status equalize_replicas();
  Status gather_local_state();
  void commit_local_state(bool in_step);
  Status last_barrier();

  // A process that outlives its worker: it parks between two steps and continues in the program's loop as the next
  // worker of its slot. The ranks of MPI do so, because MPI does not take a process in again (session_end.cc).
  void park();
  void become(WorkerId worker);

  void end_session(bool program_is_done);
  void end_link(bool program_is_done, bool in_the_middle);
  void leave_mpi();

  session::Board& board() { return plane_ ? plane_->board() : local_board_; }
  void share(const char* what, std::span<std::byte> in_place, session::Collective collective);
  session::Bucket& own_bucket(std::span<std::byte> in_place, session::Collective collective);
  void require_that_all_meet(const char* what) const;
  void reduce_own(session::Bucket& bucket, bool in_background);
  void share_between_steps(const char* what, const session::Collective& collective);
  // `make` is called once nothing can be refused any more: what it copies may be in use under the same key before.
  void start_values(const char* what, std::string_view key, const std::function<session::Collective()>& make);
  void take_next_assignment();
  void reach_device_alone();

  // For calls whose implementation is elsewhere (train/peers).
  peers::Peers& peers();
  void ask(const protocol::WorkerRequest& request);
  void require(bool condition, const char* message) const { lifecycle_.require(condition, message); }
  void require_before_start(const char* message) const { lifecycle_.require(lifecycle_.may_describe(), message); }
  void require_step(const char* message) const { lifecycle_.require(worker_->runner.is_open(), message); }

  const session::ProgramView& view() const { return program_.view; }
  bool launched() const { return !program_.environment.socket_path.empty(); }

  session::Program program_;
  session::Lifecycle lifecycle_;
  session::Board local_board_;
  const int exceptions_at_start_;
  // A loss has interrupted the collectives between these two steps: those of all workers, because this one may be at
  // another of them, or at one that the others have given up.
  bool meets_others_in_next_step_ = false;
  enum class Hook : std::uint8_t { kNone, kRuns, kInterrupted } hook_ = Hook::kNone;  // after_step(), and a loss in it
  std::optional<session::WorkerComponents> worker_;  // replaced only while no heartbeat is sent
  std::unique_ptr<session::ControlPlane> plane_;     // null without a launcher; last: its threads use what is above
};

}  // namespace elastictrain
