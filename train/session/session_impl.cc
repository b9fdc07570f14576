#include "train/session/session_impl.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace elastictrain {
namespace {

constexpr std::uint64_t kNormEvery = 16;
constexpr std::uint64_t kRoundTripEvery = 16;  // steps: it takes a system call for each connection

}  // namespace

Session::Impl::Impl() : exceptions_at_start_(std::uncaught_exceptions()) {
  auto environment = session::read_environment();
  if (!environment) throw SessionError(environment.error().message);
  environment_ = std::move(*environment);
  auto log = session::StepLog::open(environment_.step_log_directory, environment_.node);
  if (!log) throw SessionError(log.error().message);
  step_log_ = std::move(*log);
  step_log_.event("proc");
  if (!launched()) return;
  auto plane = session::ControlPlane::open(environment_, [this] { return heartbeat_messages(); });
  if (!plane) throw SessionError(plane.error().message);
  plane_ = std::move(*plane);
}

Session::Impl::~Impl() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  // A program that leaves a step open is not done, whatever its exit status.
  if (!ended_) end_session(!unwinding && !broken_ && !step_);
}

void Session::Impl::fail(const std::string& message) {
  broken_ = true;
  throw SessionError(message);
}

void Session::Impl::require(bool condition, const char* message) {
  if (!condition) throw SessionError(message);
  if (broken_) throw SessionError("this session has failed; end the program");
}

void Session::Impl::share_state(std::string_view name, void* data, std::size_t bytes) {
  require(!started_, "share_state() after start(); register all state before start()");
  require(data != nullptr || bytes == 0, "share_state() with a null pointer; pass the buffer's address");
  if (!buffers_.add(name, data, bytes)) {
    throw SessionError("state \"" + std::string(name) + "\" is shared twice; give every buffer a name of its own");
  }
  exchange_.add_state(std::span(static_cast<std::byte*>(data), bytes));
}

void Session::Impl::share_model(std::string_view name, float* data, std::size_t count) {
  share_state(name, data, count * sizeof(float));
  exchange_.model_is(std::span(data, count));
}

void Session::Impl::set_data(const DataOptions& options) {
  require(!started_, "set_data() after start(); describe the data before start()");
  require(options.batch != 0, "set_data() with a batch of 0; a worker needs at least one sample per step");
  data_ = options;
}

bool Session::Impl::start() {
  require(!started_, "start() was called twice");
  step_log_.event("imported");
  started_ = true;
  progress_.sampler.seed = data_.seed;
  // The streams that wrote the program's initial state there are unknown.
  if (device_) check_device(device_->device()->synchronize());
  open_checkpointer();
  if (plane_) {
    reserve_for_joining();
    announce();
    return take_first_seat();
  }
  seat_ = session::solo_seat(data_.batch);
  if (device_) reach_device_alone();
  next_shares_ = seat_.shares;
  resume_from_checkpoint();
  enter_lineage(seat_.generation, progress_.committed_step + 1, {}, earlier_checkpoints_);
  step_log_.event("ready", seat_.rank, seat_.world_size(), seat_.generation);
  publish_seat(true, "alone, without a launcher");
  return true;
}

// Page faults in the first steps would delay all workers. Gradients are as large as the model, if the program shares
// one.
void Session::Impl::reserve_for_joining() {
  buffers_.populate();
  const bool has_peers = environment_.world_size != 1;
  if (has_peers && environment_.keep_gradients && !device_) copies_.reserve(exchange_.model_floats());
}

bool Session::Impl::data_is_used_up() const {
  if (data_.max_steps != 0 && progress_.committed_step >= data_.max_steps) return true;
  return data_.sample_count != 0 && progress_.sampler.epoch >= data_.epochs;
}

std::optional<Batch> Session::Impl::next_batch() {
  require(started_, "next_batch() before start()");
  require(!step_, "next_batch() without commit_step() for the previous batch");
  if (outcome_ != Outcome::kRunning) return std::nullopt;
  if (data_is_used_up()) finish_training();
  if (outcome_ != Outcome::kRunning) return std::nullopt;
  clock_.step_begins(session::Clock::now());
  open_step();
  const auto given = session::Clock::now();
  if (device_) check_device(device_->step_begins(given));
  clock_.batch_given(given);
  return Batch{.step = progress_.committed_step + 1,
               .epoch = step_->cut.epoch,
               .samples = step_->samples,
               .local_samples = step_->my_count,
               .global_samples = step_->cut.total,
               .first_of_epoch = step_->cut.first_of_epoch};
}

void Session::Impl::open_step() {
  step_.emplace();
  weigh_step();
  fill_samples();
  if (plane_) plane_->step_opened();
}

// Divides the step as the generation that opened it first, and determines which shares count in the current seat.
void Session::Impl::weigh_step() {
  auto& step = *step_;
  exchange_.drop_correction();
  step.averages = averages();
  step.wants_variance = !step.averages && variance_every_ != 0 && (progress_.committed_step + 1) % variance_every_ == 0;
  step.gradient_variance = 0;
  step.wants_norm = environment_.monitors && !step.averages && (progress_.committed_step + 1) % kNormEvery == 1;
  step.shares = next_shares_;
  std::vector<std::uint32_t> shares;
  for (const auto& share : step.shares) shares.push_back(share.samples);
  step.cut = state::cut_step(progress_.sampler, data_.sample_count, shares);
  step.my_count = 0;
  step.counted = 0;
  step.uncounted.clear();
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const WorkerId worker = step.shares[rank].worker;
    // Without copies no worker can repeat an all-reduce: the step is committed without samples, on all workers alike.
    const bool counts =
        !step.shares[rank].is_lost && (!seat_.repeats_step || (environment_.keep_gradients && seat_.counts(worker)));
    if (counts) {
      step.counted += step.cut.count(rank);
      if (worker == environment_.worker) step.my_count = step.cut.count(rank);
    } else {
      const auto part = step.cut.part(rank);
      step.uncounted.insert(step.uncounted.end(), part.begin(), part.end());
    }
  }
}

void Session::Impl::fill_samples() {
  const auto& cut = step_->cut;
  if (data_.sample_count == 0 || step_->my_count == 0) return;
  if (permutation_epoch_ != cut.epoch) {
    permutation_ = state::Permutation(data_.sample_count, progress_.sampler.seed, cut.epoch);
    permutation_epoch_ = cut.epoch;
  }
  std::size_t rank = 0;
  while (step_->shares[rank].worker != environment_.worker) ++rank;
  step_->samples.reserve(step_->my_count);
  for (const auto& [first, count] : cut.part(rank)) {
    for (std::uint64_t position = first; position < first + count; ++position) {
      step_->samples.push_back(data_.shuffle ? permutation_.at(position) : position);
    }
  }
}

session::Bucket& Session::Impl::add_bucket(float* data, std::size_t count) {
  auto& buckets = step_->buckets;
  return buckets.emplace_back(session::Bucket{.data = data, .count = count, .index = buckets.size()});
}

// On the training thread, or on the reducer's after prepare_memory(), which leaves nothing to do here.
void Session::Impl::reserve_copy(session::Bucket& bucket) {
  if (bucket.copy.size() == bucket.count) return;
  bucket.copy = copies_.of_bucket(bucket.index, bucket.count);
}

// Touches the memory that the reduction needs, on the training thread, while earlier buckets are reduced. A joiner does
// it while the others compute: its first batch is empty, and page faults in its second step would delay all.
void Session::Impl::prepare_memory(session::Bucket& bucket) {
  if (step_->averages) return;
  if (keeps_inputs()) reserve_copy(bucket);
  if (step_->my_count != 0) return;
  std::fill_n(bucket.data, bucket.count, 0.0F);
  bucket.is_zero = true;
}

// This worker's input to the sum: its gradient as it was before a failed reduction.
void Session::Impl::prepare_input(session::Bucket& bucket, comm::ReduceOptions& options) {
  const std::uint64_t mine = step_->my_count;
  // A joiner's buffer may hold any value, including NaN, which a weight of zero would not remove.
  if (mine == 0) {
    if (!std::exchange(bucket.is_zero, false)) std::fill_n(bucket.data, bucket.count, 0.0F);
    return;
  }
  if (bucket.copied) {
    std::ranges::copy(bucket.copy, bucket.data);
  } else if (keeps_inputs()) {
    reserve_copy(bucket);  // a repeated step may have been opened alone, without copies
    options.keep = bucket.copy;
    bucket.copied = true;
  }
  options.scale = my_weight();
}

bool Session::Impl::keeps_inputs() const {
  return plane_ && environment_.keep_gradients && seat_.world_size() > 1;
}

float Session::Impl::my_weight() const {
  return static_cast<float>(static_cast<double>(step_->my_count) / static_cast<double>(step_->counted));
}

Status Session::Impl::in_collective(const char* what, const std::function<Status()>& work) {
  if (plane_ && !plane_->enter_collective()) {
    return Error{ErrorCode::kAborted, "this worker is halted until a new generation begins"};
  }
  Status status = work();
  if (!plane_) return status;
  if (status) {
    plane_->leave_collective();
  } else {
    plane_->collective_failed(std::string(what) + " of step " + std::to_string(progress_.committed_step + 1) +
                              " failed: " + status.error().message);
  }
  return status;
}

std::span<float> Session::Impl::fill_lane() {
  lane_input_.swap_ready = plane_ && plane_->swap_ready();
  lane_input_.wants_stop = plane_ && plane_->orphaned();
  return seat_.lane.fill(lane_input_);
}

// The lane rides on the step's first sum in host memory. If the program has none, the lane has a sum of its own.
Status Session::Impl::send_lane() {
  if (step_->lane_sent) return {};
  session::Bucket nothing;
  return reduce_bucket(nothing);
}

Status Session::Impl::reduce_bucket(session::Bucket& bucket) {
  if (bucket.kind != session::Bucket::Kind::kGradient) return reduce_own_data(bucket);
  if (bucket.on_device) {
    if (auto status = send_lane(); !status) return status;
    return in_collective("all-reduce", [&] { return reduce_device_gradient(bucket); });
  }
  const bool is_first = !step_->lane_sent;
  Status status = step_->averages ? take_local_gradient(bucket)
                                  : in_collective("all-reduce", [&] { return reduce_gradient(bucket); });
  if (status && is_first && !step_->averages && replicas_differ()) status = gather_equal_state();
  if (status && is_first && store_ && seat_.stores.empty()) status = gather_stores();
  return status;
}

Status Session::Impl::reduce_gradient(session::Bucket& bucket) {
  comm::ReduceOptions options{.want_norms = step_->wants_norm};
  prepare_input(bucket, options);
  if (!std::exchange(step_->lane_sent, true)) options.lane = fill_lane();
  if (step_->wants_variance) square_into(bucket);
  comm::ReduceStats stats;
  Status status = seat_.communicator->all_reduce({bucket.data, bucket.count}, options, &stats);
  step_->local_square_sum += stats.local_square_sum;
  step_->reduced_square_sum += stats.reduced_square_sum;
  if (status && step_->wants_variance) return add_variance(bucket, options.scale);
  return status;
}

void Session::Impl::all_reduce(float* gradient, std::size_t count) {
  require(step_.has_value(), "all_reduce() outside a step; call next_batch() first");
  if (async_pending_) wait_all_reduce();
  clock_.collective_begins(session::Clock::now());
  auto& bucket = add_bucket(gradient, count);
  prepare_memory(bucket);
  settle_buckets(step_->discarded ? Status() : reduce_bucket(bucket));
}

void Session::Impl::all_reduce_async(float* gradient, std::size_t count) {
  require(step_.has_value(), "all_reduce_async() outside a step; call next_batch() first");
  auto& bucket = add_bucket(gradient, count);
  prepare_memory(bucket);
  submit(bucket);
}

void Session::Impl::submit(session::Bucket& bucket) {
  if (!reducer_) {
    reducer_ = std::make_unique<session::Reducer>([this](session::Bucket& next) {
      const Status there = await_input(next);
      return there ? reduce_bucket(next) : there;
    });
  }
  async_pending_ = true;
  if (!step_->discarded) reducer_->submit(bucket);
}

void Session::Impl::wait_all_reduce() {
  require(step_.has_value(), "wait_all_reduce() outside a step; call next_batch() first");
  if (!async_pending_) return;
  async_pending_ = false;
  const auto& last = step_->buckets.back();
  check_device(await_input(last));  // until then it computes, whatever the reducer does meanwhile
  clock_.collective_begins(input_time(last));
  settle_buckets(reducer_->wait());
}

// Returns when all buckets so far are reduced, after any number of recoveries, or the step is given up.
void Session::Impl::settle_buckets(Status status) {
  await_checkpoint_copy();
  while (!step_->discarded) {
    if (status) status = finish_transfers();
    if (status) break;
    if (!plane_ || status.error().code == ErrorCode::kInvalid) {
      fail("all-reduce of step " + std::to_string(progress_.committed_step + 1) + " failed: " + status.error().message);
    }
    if (take_recovery_seat()) {
      status = repeat_step();
    } else {
      step_->discarded = true;
    }
  }
  if (step_->discarded) {
    // A worker with its own replica has applied this step's update, even if the others have not been notified.
    for (auto& bucket : step_->buckets) {
      const bool is_gradient = bucket.kind == session::Bucket::Kind::kGradient;
      if (is_gradient && !step_->averages) clear_gradient(bucket);
    }
  } else {
    adopt_equal_state();
    if (old_communicator_) plane_->retire(std::move(old_communicator_));
  }
  clock_.collective_ends(sum_time(step_->buckets.back()));
}

void Session::Impl::commit_step(const StepMetrics& metrics) {
  require(step_.has_value(), "commit_step() without next_batch()");
  if (async_pending_) wait_all_reduce();
  if (!step_->lane_sent) all_reduce(nullptr, 0);
  mark_device_state();
  if (step_->discarded) return discard_step();
  exchange_.apply_correction();
  read_lane();
  commit_progress(metrics);
  if (plane_) plane_->step_committed(progress_.committed_step, lane_output_.all_ready);
  checkpoint_if_due();
  if (view_.generation != seat_.generation) publish_seat(false, view_reason_);
  if (lane_output_.all_ready) {
    change_membership();
  } else if (lane_output_.all_stop) {
    checkpoint();
    outcome_ = Outcome::kStopped;
  }
}

void Session::Impl::read_lane() {
  lane_output_ = seat_.lane.read();
  if (lane_output_.has_loss) report_.loss = lane_output_.loss;
  report_.slowest_compute_us = lane_output_.slowest_compute_us;
  report_.samples = step_->counted;
  if (step_->averages) report_.gradient_norm = 0;
  if (step_->wants_norm) report_.gradient_norm = std::sqrt(step_->reduced_square_sum);
  if (step_->wants_variance) gradient_variance_ = step_->gradient_variance;
  // A sum is meaningless if a worker joined or left in between.
  if (pending_norms_ && lane_output_.local_squares == pending_norms_->workers) {
    const auto& norms = *pending_norms_;
    monitors_->norms_known(lane_output_.local_square_mean, norms.global_square);
    const auto samples = static_cast<double>(norms.samples);
    noise_scale_.add(samples / norms.workers, samples, lane_output_.local_square_mean, norms.global_square);
  }
  pending_norms_.reset();
}

void Session::Impl::commit_progress(const StepMetrics& metrics) {
  const auto now = session::Clock::now();
  const auto times = last_times_ = clock_.step_ends(now);
  OpenStep step = std::move(*step_);
  step_.reset();
  lane_input_ = {.loss = metrics.loss,
                 .loss_samples = step.my_count,
                 .compute_us = times.compute_us,
                 .has_local_square = step.wants_norm && step.my_count != 0,
                 .local_square = step.local_square_sum};
  if (step.wants_norm) pending_norms_ = PendingNorms{workers_with_samples(step), step.counted, step.reduced_square_sum};
  ++progress_.committed_step;
  if (step.averages) averaged_until_ = progress_.committed_step;
  commit_sampler(step);
  progress_.learning_rate.advance();
  if (next_learning_rate_) {
    progress_.learning_rate.retarget(next_learning_rate_->to, next_learning_rate_->length_steps);
    next_learning_rate_.reset();
  }
  step_log_.step(progress_.committed_step, seat_.rank, seat_.world_size(), seat_.generation);
  if (plane_) tell_figures(step, times, now);
  if (plane_ && environment_.audit_every != 0) audit(std::move(step));
  next_shares_ = seat_.shares;
  seat_.repeats_step = false;
}

std::uint32_t Session::Impl::workers_with_samples(const OpenStep& step) {
  const auto counts = [](const state::WorkerShare& share) { return share.samples != 0 && !share.is_lost; };
  return static_cast<std::uint32_t>(std::count_if(step.shares.begin(), step.shares.end(), counts));
}

void Session::Impl::commit_sampler(const OpenStep& step) {
  progress_.samples_used += step.counted;
  progress_.sampler = state::advance(progress_.sampler, data_.sample_count, step.cut, step.uncounted);
}

void Session::Impl::tell_figures(const OpenStep& step, const session::StepTimes& times,
                                 session::Clock::time_point now) {
  session::StepFigures figures{.generation = seat_.generation,
                               .step = progress_.committed_step,
                               .epoch = step.cut.epoch,
                               .loss = report_.loss,
                               .gradient_norm = report_.gradient_norm,
                               .global_samples = step.counted,
                               .samples_used = progress_.samples_used,
                               .traffic = seat_.communicator->traffic()};
  if (data_.sample_count != 0) {
    const auto& next = progress_.sampler;
    const std::uint64_t used =
        next.epoch == step.cut.epoch ? next.cursor - state::count_of(next.returned) : data_.sample_count;
    figures.epoch_fraction = static_cast<double>(used) / static_cast<double>(data_.sample_count);
  }
  monitors_->step_done(times, figures, now);
  if (progress_.committed_step % kRoundTripEvery == 0) measure_round_trip();
  swap_gap_.committed(now);
  tell_swap(swap_gap_.take());
}

void Session::Impl::measure_round_trip() {
  double farthest_us = 0;
  for (const auto& peer : seat_.communicator->peers()) farthest_us = std::max(farthest_us, peer.round_trip_us);
  monitors_->round_trip_known(farthest_us);
}

void Session::Impl::audit(OpenStep step) {
  std::optional<std::uint64_t> hash;
  if (progress_.committed_step % environment_.audit_every == 0 && !step.averages) {
    const auto content = buffers_.content_hash();
    if (!content) fail("the state cannot be read: " + content.error().message);
    hash = *content;
  }
  session::AuditedStep audited{.generation = seat_.generation,
                               .step = progress_.committed_step,
                               .cut = std::move(step.cut),
                               .shares = std::move(step.shares),
                               .all_count = !seat_.repeats_step};
  if (seat_.repeats_step && environment_.keep_gradients) audited.holders = seat_.holders;
  audit_log_->add(std::move(audited), environment_.worker, hash);
}

// The program's view of its seat: constant from one boundary to the next.
void Session::Impl::publish_seat(bool joined, const std::string& reason) {
  const std::uint32_t previous_world = joined ? 0 : view_.world_size;
  view_ = {.rank = seat_.rank,
           .local_rank = seat_.local_rank,
           .world_size = seat_.world_size(),
           .generation = seat_.generation};
  const bool asked_to_average = seat_.synchronization != protocol::Synchronization::kGradients;
  if (asked_to_average && !averages() && seat_.rank == 0) {
    tell("synchronization", "gradients are averaged: the program shares no model; call share_model() for it");
  }
  if (!on_change_) return;
  on_change_({.generation = view_.generation,
              .rank = view_.rank,
              .world_size = view_.world_size,
              .previous_world_size = previous_world,
              .joined_now = joined,
              .reason = reason});
}

void Session::Impl::note(std::string_view key, std::string_view value) {
  if (!plane_ || !started_ || seat_.rank != 0) return;
  plane_->send(protocol::WorkerNote{std::string(key), std::string(value)});
}

void Session::Impl::finish() {
  if (!ended_) end_session(!broken_);
}

}  // namespace elastictrain
