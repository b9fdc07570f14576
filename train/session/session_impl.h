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

// The implementation of elastictrain::Session: checks the program's calls and passes them to the components of
// the worker that this process is (worker.h). Threads, sockets and plans belong to the control plane (control_plane.h).
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

  void share_state(std::string_view name, void* data, std::size_t bytes);
  void share_model(std::string_view name, float* data, std::size_t count);
  void share_tensor(std::string_view name, void* data, std::string_view dtype, std::span<const std::uint64_t> shape);
  void share_forward_tensor(std::string_view name, void* data, std::string_view dtype,
                            std::span<const std::uint64_t> shape);
  void share_first_tensor(std::string_view name, void* data, std::string_view dtype,
                          std::span<const std::uint64_t> shape, std::uint64_t every_steps);
  void share_local_state(std::string_view name, std::span<std::byte> bytes);
  void move_state(std::string_view name, void* data);
  std::uint64_t await_start(std::uint64_t epoch);
  void share_early(std::string_view name, const void* data, std::size_t bytes);
  const std::vector<std::byte>* early(std::string_view name) const { return program_.early.find(name); }
  void set_data(const DataOptions& options);
  void on_change(std::function<void(const Change&)> callback) { program_.on_change = std::move(callback); }
  bool start();
  std::optional<Batch> next_batch();
  void all_reduce(float* gradient, std::size_t count);
  void all_reduce_async(float* gradient, std::size_t count);
  void all_reduce_typed(void* gradient, std::size_t count, DataType type, bool in_background);
  void wait_all_reduce();
  Boundary boundary();
  void disagree(std::string_view reason);
  void decline(std::string_view reason);
  void attach(std::string_view name, const void* data, std::size_t bytes);
  const std::vector<std::byte>* attachment(std::string_view name) const { return program_.attachments.find(name); }
  void commit_step(const StepMetrics& metrics);
  void finish();
  void end_data();
  void phase(std::string_view name);
  bool is_inherited() const { return lifecycle_.is_inherited(); }

  // GPUs (session_state.cc).
  int use_device(int ordinal);
  void use_stream_order();
  void share_device_state(std::string_view name, void* data, std::size_t bytes);
  void all_reduce_device(float* gradient, std::size_t count, void* stream);
  void all_reduce_device_async(float* gradient, std::size_t count, void* stream);
  void all_reduce_device_typed(void* gradient, std::size_t count, DataType type, void* stream, bool in_background);

  // What a program can use besides training (session_collectives.cc, session_program.cc).
  void sum(float* data, std::size_t count);
  void broadcast(void* data, std::size_t bytes);
  void broadcast_from(void* data, std::size_t bytes, std::uint32_t root);
  void broadcast_into(const void* data, std::size_t bytes, std::uint32_t root, void* received);
  void reduce_values(void* data, std::size_t count, DataType type, Operation operation);
  void all_gather(const void* data, std::size_t bytes, void* gathered);
  void reduce_scatter(const void* data, std::size_t count_per_rank, DataType type, Operation operation, void* result);
  void agree(const void* data, std::size_t bytes, int* equal);
  void barrier();
  void reduce_values_in(std::uint64_t group, void* data, std::size_t count, DataType type, Operation operation);
  std::uint32_t all_gather_in(std::uint64_t group, const void* data, std::size_t bytes, void* gathered);
  void broadcast_in(std::uint64_t group, void* data, std::size_t bytes, std::uint32_t root);
  void reduce_values_async(std::string_view key, void* data, std::size_t count, DataType type, Operation operation);
  void broadcast_async(std::string_view key, void* data, std::size_t bytes, std::uint32_t root);
  void step_hooks(std::function<void(const Batch&)> before, std::function<void(const StepReport&)> after);
  void before_step(const Batch& batch) const;
  void* step_memory(std::size_t bytes);
  LookAhead look_ahead(std::uint32_t batches);
  RunMonitors run_monitors() const;
  std::vector<PeerMonitors> peer_monitors() const;
  void measure_gradient_variance(std::uint64_t every_steps) { program_.variance_every = every_steps; }
  std::uint64_t half_batch() const;
  void report_halves(double first_square, double second_square);
  Synchronization synchronization() const;
  void ask(const protocol::WorkerRequest& request);
  void note(std::string_view key, std::string_view value);
  void board_put(std::string_view key, std::string_view value);
  std::optional<std::string> board_get(std::string_view key, std::chrono::milliseconds wait);

  // For calls whose implementation is elsewhere (train/peers).
  peers::Peers& peers();
  void require(bool condition, const char* message) const { lifecycle_.require(condition, message); }
  void require_before_start(const char* message) const { lifecycle_.require(lifecycle_.may_describe(), message); }
  void require_step(const char* message) const { lifecycle_.require(worker_->runner.is_open(), message); }
  // Until no bucket is in the background.
  void settle_background();

  const session::ProgramView& view() const { return program_.view; }
  const state::Progress& progress() const { return worker_->run_progress.progress(); }
  bool launched() const { return !program_.environment.socket_path.empty(); }
  WorkerId worker_id() const { return worker_->id; }
  Outcome outcome() const { return lifecycle_.outcome; }

 private:
  void add_state(std::string_view name, std::span<std::byte> bytes, std::optional<state::TensorType> type);
  std::size_t tensor_bytes(std::string_view name, const state::TensorType& type) const;
  void open_plane();
  bool start_launched();
  void start_alone();
  void announce();
  void reserve_for_joining();

  // The step.
  session::Bucket& add_narrow(void* gradient, std::size_t count, DataType type);
  void reduce_host(session::Bucket& bucket, bool in_background);
  void reduce_device(session::Bucket& bucket, void* stream, bool in_background);
  void settle(Status status, bool frees_state);
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
