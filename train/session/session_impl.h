// Purpose: the implementation of elastictrain::Session: the loop's state on the training thread. Threads, sockets and
// plans belong to the control plane (control_plane.h), which this class queries only at step boundaries.
//
// Order within a step: next_batch() divides the step among the ranks, the first bucket carries the control lane,
// commit_step() advances the replicated numbers and, if the lane reported that all workers are ready, exchanges the
// seat. A recovery exchanges the seat in the middle of a step and repeats the step's all-reduces. The program sees a
// new seat only at a boundary.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "elastictrain/session.hpp"
#include "train/checkpoint/checkpointer.h"
#include "train/session/audit_log.h"
#include "train/session/control_plane.h"
#include "train/session/device_side.h"
#include "train/session/environment.h"
#include "train/session/input_copies.h"
#include "train/session/model_exchange.h"
#include "train/session/model_store.h"
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
  void share_model(std::string_view name, float* data, std::size_t count);
  void set_data(const DataOptions& options);
  void on_change(std::function<void(const Change&)> callback) { on_change_ = std::move(callback); }
  bool start();
  std::optional<Batch> next_batch();
  void all_reduce(float* gradient, std::size_t count);
  void all_reduce_async(float* gradient, std::size_t count);
  void wait_all_reduce();
  int use_device(int ordinal);
  void share_device_state(std::string_view name, void* data, std::size_t bytes);
  void all_reduce_device(float* gradient, std::size_t count, void* stream);
  void all_reduce_device_async(float* gradient, std::size_t count, void* stream);
  void commit_step(const StepMetrics& metrics);
  void sum(float* data, std::size_t count);
  void broadcast(void* data, std::size_t bytes);
  void enable_store();
  void save(std::string_view name, const void* data, std::size_t bytes, std::uint64_t version);
  StoreReply request(std::uint32_t rank, std::string_view name, std::uint64_t version, void* data, std::size_t bytes,
                     std::chrono::milliseconds time_limit);
  std::vector<double> peer_latencies_us(std::chrono::milliseconds time_limit);
  std::vector<TreeEdge> minimum_spanning_tree(std::chrono::milliseconds time_limit);
  RunMonitors run_monitors() const;
  std::vector<PeerMonitors> peer_monitors() const;
  void measure_gradient_variance(std::uint64_t every_steps) { variance_every_ = every_steps; }
  Synchronization synchronization() const;
  void ask(const protocol::WorkerRequest& request);
  void note(std::string_view key, std::string_view value);
  void finish();

  struct View {
    std::uint32_t rank = 0;
    std::uint32_t local_rank = 0;
    std::uint32_t world_size = 1;
    Generation generation = 0;
  };
  const View& view() const { return view_; }
  const state::Progress& progress() const { return progress_; }
  bool launched() const { return !environment_.socket_path.empty(); }
  WorkerId worker() const { return environment_.worker; }
  Outcome outcome() const { return outcome_; }
  const StepReport& last_step() const { return report_; }

 private:
  // The step between next_batch() and commit_step().
  struct OpenStep {
    state::Cut cut;
    std::vector<state::WorkerShare> shares;  // as divided by the generation that opened it first
    std::vector<std::uint64_t> samples;
    // Which of these shares count in the current seat.
    std::uint64_t my_count = 0;
    std::uint64_t counted = 0;
    std::vector<state::Interval> uncounted;

    std::deque<session::Bucket> buckets;  // in the order of the calls
    bool discarded = false;               // this worker gave it up: its result is not used
    bool lane_sent = false;
    bool wants_norm = false;
    bool wants_variance = false;
    double gradient_variance = 0;
    bool averages = false;         // models instead of gradients
    bool has_equal_state = false;  // received in its first all-reduce, not yet in the program's memory
    double local_square_sum = 0;
    double reduced_square_sum = 0;
  };
  // Gradient norms of the last measured step, until the next step's lane brings those of the other workers.
  struct PendingNorms {
    std::uint32_t workers = 0;  // that had samples in it
    std::uint64_t samples = 0;
    double global_square = 0;
  };
  // A seat of a recovery whose state this worker has not received yet.
  struct Promise {
    protocol::GenerationPlan plan;
    std::vector<comm::StateSocket> state_sockets;
    std::shared_ptr<comm::CancelToken> cancel;
    bool may_keep_replica = false;  // this worker's own counts if replicas differ at the donors' step
  };

  [[noreturn]] void fail(const std::string& message);
  void require(bool condition, const char* message);
  bool data_is_used_up() const;
  static std::uint32_t workers_with_samples(const OpenStep& step);
  void open_step();
  void weigh_step();
  void fill_samples();
  Status in_collective(const char* what, const std::function<Status()>& work);
  std::span<float> fill_lane();
  session::Bucket& add_bucket(float* data, std::size_t count);
  void submit(session::Bucket& bucket);
  Status send_lane();
  Status reduce_bucket(session::Bucket& bucket);
  Status reduce_gradient(session::Bucket& bucket);
  void reserve_for_joining();
  void reserve_copy(session::Bucket& bucket);
  void prepare_memory(session::Bucket& bucket);
  void prepare_input(session::Bucket& bucket, comm::ReduceOptions& options);
  bool keeps_inputs() const;
  float my_weight() const;  // of this worker's gradient in the sum; requires samples
  void settle_buckets(Status status);
  void read_lane();
  void commit_progress(const StepMetrics& metrics);
  void commit_sampler(const OpenStep& step);
  void tell_figures(const OpenStep& step, const session::StepTimes& times, session::Clock::time_point now);
  void measure_round_trip();
  void audit(OpenStep step);
  void publish_seat(bool joined, const std::string& reason);

  // GPUs (session_device.cc).
  int device_of_slot();
  session::Bucket& add_device_bucket(float* data, std::size_t count, void* stream);
  void check_device(const Status& status);
  void reach_device_alone();
  Status await_input(const session::Bucket& bucket);
  session::Clock::time_point input_time(const session::Bucket& bucket);
  session::Clock::time_point sum_time(const session::Bucket& bucket);
  Status reduce_device_gradient(session::Bucket& bucket);
  void clear_gradient(session::Bucket& bucket);
  void mark_device_state();
  void start_device_transfers(const protocol::GenerationPlan& plan);
  bool moves_state_on_devices() const;
  session::DeviceState device_state() const;

  // The peer-to-peer store (session_store.cc).
  void open_store();
  Status gather_stores();
  std::span<const std::byte> store_of(std::uint32_t rank) const;

  // Other features for programs (session_program.cc).
  void share_own_data(session::Bucket& bucket);
  Status reduce_own_data(session::Bucket& bucket);
  void square_into(const session::Bucket& bucket);
  Status add_variance(const session::Bucket& bucket, float scale);

  // Replicas that differ (session_synchronization.cc).
  bool averages() const;
  bool replicas_differ() const;
  bool has_own_replica() const;
  Status take_local_gradient(session::Bucket& bucket);
  Status exchange_models();
  Status swap_models(bool contributes);
  Status learn_reach();
  Status gather_equal_state();
  void adopt_equal_state();
  Status end_with_equal_replicas();
  state::StateBuffers& receive_beside_replica();
  void take_received_replica();

  // Checkpoints (session_checkpoint.cc).
  void open_checkpointer();
  void resume_from_checkpoint();
  void begin_beyond(Generation newest_generation);
  void enter_lineage(Generation generation, Step first_step, const std::vector<protocol::Fence>& lineage,
                     bool announce);
  void checkpoint_if_due();
  void checkpoint();
  void write_checkpoint();
  void await_checkpoint_copy();
  checkpoint::Snapshot snapshot() const;
  void tell_checkpoints();
  void tell(const std::string& key, const std::string& text);

  // Launched workers only (session_membership.cc).
  void announce();
  // False: no seat will come; outcome_ holds the reason.
  bool take_first_seat();
  bool end_before_seat(Outcome outcome);
  // False: the promised generation did not come; another one may.
  bool begin_first_generation(session::TakenSeat taken);
  void account_for_checkpoint();
  Status replicate_from_first_rank();
  bool join(session::TakenSeat taken);
  bool receive_header(Promise promise);
  void expect_learning_rate(const protocol::GenerationPlan& plan);
  void change_membership();
  void leave(const protocol::GenerationPlan& plan, Outcome outcome);
  void take_planned_seat(session::TakenSeat taken);
  void send_state(session::TakenSeat& taken);
  state::TransferHeader header() const;
  Status finish_transfers();
  void tell_swap(const std::optional<protocol::WorkerSwap>& swap);
  void tell_audits();
  std::vector<protocol::WorkerUp> waiting_audits();
  std::vector<protocol::WorkerUp> heartbeat_messages();
  void end_session(bool program_is_done);
  void leave_mpi();

  // A process that outlives its worker (session_parking.cc).
  void park();
  void close_worker();
  void begin_as(WorkerId worker);

  // After a loss (session_recovery.cc).
  bool take_recovery_seat();
  void sit_down_again(session::TakenSeat taken);
  bool continue_step_without_state();
  Status repeat_step();
  void discard_step();
  void rejoin();
  void stop_as_orphan();
  void tell_audits_of_leavers();
  void tell_audits_of_the_lost(const std::vector<state::WorkerShare>& before, const std::vector<WorkerId>& holders);
  void finish_training();
  Status last_barrier();

  session::Environment environment_;
  std::unique_ptr<session::DeviceSide> device_;  // null: the program trains in host memory
  state::StateBuffers buffers_;
  session::ModelExchange exchange_;
  DataOptions data_;
  std::function<void(const Change&)> on_change_;
  session::StepLog step_log_;
  const int exceptions_at_start_;

  Outcome outcome_ = Outcome::kRunning;
  bool started_ = false;
  bool broken_ = false;
  bool ended_ = false;
  bool has_left_ = false;  // this worker has ended; its process parks at the boundary
  session::Seat seat_;
  View view_;
  std::string view_reason_;  // reason of the seat that the program does not see yet
  state::Progress progress_;
  std::vector<state::WorkerShare> shares_before_;  // those of the seat before a planned change
  std::vector<state::WorkerShare> next_shares_;    // of the next step, or of the open one if there is one
  Step averaged_until_ = 0;                        // as in the transfer header
  std::optional<Promise> promise_;
  // From a recovery: learning rates change at a boundary, and its first one is the end of the repeated step.
  std::optional<state::LearningRateRamp> next_learning_rate_;
  bool has_foreign_state_ = false;  // not the program's initial state: another worker's, or part of a first broadcast
  bool finish_told_ = false;
  struct Received {
    Generation generation = 0;
    state::Progress progress;
  };
  std::optional<Received> received_;  // from others, in audit mode; until it is reported
  std::optional<Step> resumed_step_;  // of the checkpoint that this worker started from
  bool earlier_checkpoints_ = false;  // some existed when this worker started
  std::uint64_t permutation_epoch_ = ~std::uint64_t{0};
  state::Permutation permutation_;

  std::optional<OpenStep> step_;
  session::InputCopies copies_;  // of the open step's buckets
  session::LaneInput lane_input_;
  session::LaneOutput lane_output_;
  std::optional<PendingNorms> pending_norms_;
  StepReport report_;
  session::StepClock clock_;
  std::optional<session::Monitors> monitors_{std::in_place};  // replaced only while no heartbeat is sent
  session::NoiseScale noise_scale_;
  session::StepTimes last_times_;
  std::uint64_t variance_every_ = 0;  // steps; 0: never
  double gradient_variance_ = 0;
  std::vector<float> squares_;  // of a bucket, while its variance is measured
  bool stores_ = false;         // the program enabled the store
  std::unique_ptr<session::ModelStore> store_;
  std::vector<float> latencies_;   // of all pairs, for the duration of the step that shares them
  protocol::WorkerRequest asked_;  // the program's latest request
  session::SwapGap swap_gap_;
  std::optional<session::AuditLog> audit_log_{std::in_place};  // replaced like monitors_
  bool async_pending_ = false;
  std::unique_ptr<session::Reducer> reducer_;
  // Closed once the new generation has reduced: no worker can still be reading from the old one then.
  std::shared_ptr<comm::Communicator> old_communicator_;
  std::unique_ptr<session::StateSender> sender_;
  // Where a worker with a replica of its own receives the donors' state until it is known which of the two counts.
  std::vector<std::byte> beside_memory_;
  state::StateBuffers beside_;
  bool replica_is_whole_ = false;  // this worker's own one, in the program's memory
  bool receives_beside_ = false;
  bool keeps_replica_ = false;  // while it receives the donors' state
  std::unique_ptr<session::StateReceiver> receiver_;
  std::unique_ptr<checkpoint::Checkpointer> checkpointer_;  // null without a directory
  std::unique_ptr<session::ControlPlane> plane_;            // last: its threads use what is above
};

}  // namespace elastictrain
