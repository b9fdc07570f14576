// Purpose: what is behind elastictrain::Session: the loop's state on the training thread. Threads, sockets and plans
// are the control plane's business (control_plane.h); this asks it at step boundaries only.
//
// Order within a step: next_batch() cuts it, the first bucket carries the control lane, commit_step() advances the
// replicated numbers and, when the lane said that everyone is ready, exchanges the seat.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "elastictrain/session.hpp"
#include "train/session/audit_log.h"
#include "train/session/control_plane.h"
#include "train/session/environment.h"
#include "train/session/monitors.h"
#include "train/session/reducer.h"
#include "train/session/seat.h"
#include "train/session/state_transfer.h"
#include "train/session/step_log.h"
#include "train/session/swap_gap.h"
#include "train/state/progress.h"
#include "train/state/state_buffers.h"

namespace elastictrain {

class __attribute__((visibility("hidden"))) Session::Impl {
 public:
  Impl();
  ~Impl();

  void share_state(std::string_view name, void* data, std::size_t bytes);
  void set_data(const DataOptions& options);
  void on_change(std::function<void(const Change&)> callback) { on_change_ = std::move(callback); }
  bool start();
  std::optional<Batch> next_batch();
  void all_reduce(float* gradient, std::size_t count);
  void all_reduce_async(float* gradient, std::size_t count);
  void wait_all_reduce();
  void commit_step(const StepMetrics& metrics);
  void note(std::string_view key, std::string_view value);
  void finish();

  const session::Seat& seat() const { return seat_; }
  const state::Progress& progress() const { return progress_; }
  bool launched() const { return !environment_.socket_path.empty(); }
  WorkerId worker() const { return environment_.worker; }
  Outcome outcome() const { return outcome_; }
  const StepReport& last_step() const { return report_; }

 private:
  // The step between next_batch() and commit_step().
  struct OpenStep {
    state::Cut cut;
    std::vector<std::uint64_t> samples;
    bool lane_sent = false;
    bool wants_norm = false;
    double reduced_square_sum = 0;
  };

  [[noreturn]] void fail(const std::string& message);
  void require(bool condition, const char* message);
  std::uint32_t world_size() const { return static_cast<std::uint32_t>(seat_.shares.size()); }
  bool data_is_used_up() const;
  void fill_samples();
  Status reduce_bucket(float* data, std::size_t count);
  void after_reduce(const Status& status);
  void read_lane();
  void commit_progress(const StepMetrics& metrics);
  void audit(const state::Cut& cut);
  void resume_from_checkpoint();
  void checkpoint_if_due();
  void checkpoint();
  void call_on_change(std::uint32_t previous_world, bool joined, const std::string& reason);

  // Launched workers only (session_membership.cc).
  bool start_launched();
  bool end_before_start(Outcome outcome);
  bool begin_first_generation(session::Upcoming upcoming);
  void replicate_from_first_rank();
  // False: the generation that was promised did not come; another one may.
  bool join(session::Upcoming upcoming);
  void change_membership();
  void leave(const protocol::GenerationPlan& plan);
  void take_seat(session::Upcoming upcoming);
  void send_state(const protocol::GenerationPlan& plan, std::vector<comm::StateSocket> joiners);
  state::TransferHeader header() const;
  void finish_transfers();
  void tell_swap(const std::optional<protocol::WorkerSwap>& swap);
  std::vector<protocol::WorkerUp> heartbeat_messages();
  void end_session(bool program_is_done);

  session::Environment environment_;
  state::StateBuffers buffers_;
  DataOptions data_;
  std::function<void(const Change&)> on_change_;
  session::StepLog step_log_;
  const int exceptions_at_start_;

  Outcome outcome_ = Outcome::kRunning;
  bool started_ = false;
  bool broken_ = false;
  bool ended_ = false;
  session::Seat seat_;
  state::Progress progress_;
  Step last_checkpoint_ = 0;
  std::uint64_t permutation_epoch_ = ~std::uint64_t{0};
  state::Permutation permutation_;

  std::optional<OpenStep> step_;
  session::LaneInput lane_input_;
  session::LaneOutput lane_output_;
  StepReport report_;
  session::StepClock clock_;
  session::Monitors monitors_;
  session::SwapGap swap_gap_;
  session::AuditLog audit_log_;
  bool async_pending_ = false;
  std::unique_ptr<session::Reducer> reducer_;
  // Closed once the new generation has reduced: then nobody can still be reading from the old one.
  std::unique_ptr<comm::Communicator> old_communicator_;
  std::unique_ptr<session::StateSender> sender_;
  std::unique_ptr<session::StateReceiver> receiver_;
  std::unique_ptr<session::ControlPlane> plane_;  // last: its threads use what is above
};

}  // namespace elastictrain
