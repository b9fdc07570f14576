#include "train/session/session_impl.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <utility>

#include "train/session/checkpoint.h"

namespace elastictrain {
namespace {

constexpr std::uint64_t kNormEvery = 16;

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
  // A program that gives up inside a step is not done, whatever its exit status will be.
  if (!ended_) end_session(!unwinding && !broken_ && !step_);
}

void Session::Impl::fail(const std::string& message) {
  broken_ = true;
  throw SessionError(message);
}

void Session::Impl::require(bool condition, const char* message) {
  if (!condition) throw SessionError(message);
  if (broken_) throw SessionError("this session failed before; end the program");
}

void Session::Impl::share_state(std::string_view name, void* data, std::size_t bytes) {
  require(!started_, "share_state() after start(); register all state before");
  require(data != nullptr || bytes == 0, "share_state() with a null pointer; pass the buffer's address");
  if (!buffers_.add(name, data, bytes)) {
    throw SessionError("state \"" + std::string(name) + "\" is shared twice; give every buffer a name of its own");
  }
}

void Session::Impl::set_data(const DataOptions& options) {
  require(!started_, "set_data() after start(); describe the data before");
  require(options.batch != 0, "set_data() with a batch of 0; a worker needs at least one sample per step");
  data_ = options;
}

bool Session::Impl::start() {
  require(!started_, "start() was called twice");
  step_log_.event("imported");
  started_ = true;
  progress_.sampler.seed = data_.seed;
  if (plane_) return start_launched();
  seat_ = session::solo_seat(data_.batch);
  resume_from_checkpoint();
  step_log_.event("ready", seat_.rank, world_size(), seat_.generation);
  call_on_change(0, true, "alone, without a launcher");
  return true;
}

bool Session::Impl::data_is_used_up() const {
  if (data_.max_steps != 0 && progress_.committed_step >= data_.max_steps) return true;
  return data_.sample_count != 0 && progress_.sampler.epoch >= data_.epochs;
}

std::optional<Batch> Session::Impl::next_batch() {
  require(started_, "next_batch() before start()");
  require(!step_, "next_batch() without commit_step() for the batch before");
  if (outcome_ != Outcome::kRunning) return std::nullopt;
  clock_.step_begins(session::Clock::now());
  if (data_is_used_up()) {
    finish_transfers();
    checkpoint();
    outcome_ = Outcome::kFinished;
    return std::nullopt;
  }
  step_.emplace();
  step_->cut = state::cut_step(progress_.sampler, data_.sample_count, seat_.shares_now());
  step_->wants_norm = (progress_.committed_step + 1) % kNormEvery == 1;
  fill_samples();
  clock_.batch_given(session::Clock::now());
  return Batch{.step = progress_.committed_step + 1,
               .epoch = step_->cut.epoch,
               .samples = step_->samples,
               .local_samples = step_->cut.count(seat_.rank),
               .global_samples = step_->cut.total,
               .first_of_epoch = step_->cut.first_of_epoch};
}

void Session::Impl::fill_samples() {
  const auto& cut = step_->cut;
  if (data_.sample_count == 0) return;
  if (permutation_epoch_ != cut.epoch) {
    permutation_ = state::Permutation(data_.sample_count, progress_.sampler.seed, cut.epoch);
    permutation_epoch_ = cut.epoch;
  }
  step_->samples.reserve(cut.count(seat_.rank));
  for (const auto& [first, count] : cut.part(seat_.rank)) {
    for (std::uint64_t position = first; position < first + count; ++position) {
      step_->samples.push_back(data_.shuffle ? permutation_.at(position) : position);
    }
  }
}

Status Session::Impl::reduce_bucket(float* data, std::size_t count) {
  const auto& cut = step_->cut;
  comm::ReduceOptions options;
  // A joiner's buffer may hold anything, also NaN, which a weight of zero would not remove.
  const std::uint64_t mine = cut.count(seat_.rank);
  if (mine == 0) std::fill_n(data, count, 0.0F);
  if (mine != cut.total) options.scale = static_cast<float>(static_cast<double>(mine) / static_cast<double>(cut.total));
  options.want_norms = step_->wants_norm;
  if (!std::exchange(step_->lane_sent, true)) {
    lane_input_.swap_ready = plane_ && plane_->swap_ready(seat_.generation);
    lane_input_.wants_stop = plane_ && plane_->orphaned();
    options.lane = seat_.lane.fill(lane_input_);
  }
  comm::ReduceStats stats;
  const Status status = seat_.communicator->all_reduce({data, count}, options, &stats);
  step_->reduced_square_sum += stats.reduced_square_sum;
  return status;
}

void Session::Impl::all_reduce(float* gradient, std::size_t count) {
  require(step_.has_value(), "all_reduce() outside a step; call next_batch() first");
  if (async_pending_) wait_all_reduce();
  clock_.collective_begins(session::Clock::now());
  after_reduce(reduce_bucket(gradient, count));
}

void Session::Impl::all_reduce_async(float* gradient, std::size_t count) {
  require(step_.has_value(), "all_reduce_async() outside a step; call next_batch() first");
  if (!reducer_) {
    reducer_ =
        std::make_unique<session::Reducer>([this](float* data, std::size_t n) { return reduce_bucket(data, n); });
  }
  async_pending_ = true;
  reducer_->submit(gradient, count);
}

void Session::Impl::wait_all_reduce() {
  require(step_.has_value(), "wait_all_reduce() outside a step; call next_batch() first");
  if (!async_pending_) return;
  async_pending_ = false;
  clock_.collective_begins(session::Clock::now());
  after_reduce(reducer_->wait());
}

void Session::Impl::after_reduce(const Status& status) {
  if (!status) {
    fail("all-reduce of step " + std::to_string(progress_.committed_step + 1) + " failed: " + status.error().message);
  }
  if (old_communicator_) plane_->retire(std::move(old_communicator_));
  finish_transfers();
  clock_.collective_ends(session::Clock::now());
}

void Session::Impl::commit_step(const StepMetrics& metrics) {
  require(step_.has_value(), "commit_step() without next_batch()");
  if (async_pending_) wait_all_reduce();
  if (!step_->lane_sent) all_reduce(nullptr, 0);
  read_lane();
  commit_progress(metrics);
  checkpoint_if_due();
  if (lane_output_.all_ready) {
    change_membership();
  } else if (lane_output_.anyone_stops) {
    checkpoint();
    outcome_ = Outcome::kStopped;
  }
}

void Session::Impl::checkpoint_if_due() {
  const auto every = environment_.checkpoint_every;
  if (every != 0 && progress_.committed_step % every == 0) checkpoint();
}

void Session::Impl::checkpoint() {
  if (environment_.checkpoint_directory.empty() || seat_.rank != 0) return;
  if (std::exchange(last_checkpoint_, progress_.committed_step) == progress_.committed_step) return;
  const Status status =
      session::write_checkpoint(environment_.checkpoint_directory, seat_.generation, progress_, buffers_);
  if (status) return;
  const std::string text = status.error().message + "; training goes on without it";
  if (plane_) {
    plane_->send(protocol::WorkerNote{"checkpoint_failed", text});
  } else {
    std::fprintf(stderr, "elastictrain: %s\n", text.c_str());
  }
}

void Session::Impl::resume_from_checkpoint() {
  if (!environment_.resume || environment_.checkpoint_directory.empty() || seat_.rank != 0) return;
  const auto progress = session::load_newest_checkpoint(environment_.checkpoint_directory, buffers_);
  if (!progress && progress.error().code == ErrorCode::kUnavailable) return;
  if (!progress) fail(progress.error().message);
  const auto learning_rate = progress_.learning_rate;  // of this run's size, not of the size it had then
  progress_ = *progress;
  progress_.learning_rate = learning_rate;
  last_checkpoint_ = progress_.committed_step;
}

void Session::Impl::read_lane() {
  lane_output_ = seat_.lane.read();
  if (lane_output_.has_loss) report_.loss = lane_output_.loss;
  report_.slowest_compute_us = lane_output_.slowest_compute_us;
  report_.samples = step_->cut.total;
  if (step_->wants_norm) report_.gradient_norm = std::sqrt(step_->reduced_square_sum);
}

void Session::Impl::commit_progress(const StepMetrics& metrics) {
  const auto now = session::Clock::now();
  const auto times = clock_.step_ends(now);
  const auto cut = step_->cut;
  step_.reset();
  lane_input_ = {.loss = metrics.loss, .loss_samples = cut.count(seat_.rank), .compute_us = times.compute_us};
  ++progress_.committed_step;
  progress_.samples_used += cut.total;
  progress_.sampler = state::advance(progress_.sampler, data_.sample_count, cut);
  progress_.learning_rate.advance();
  seat_.first_step = false;
  step_log_.step(progress_.committed_step, seat_.rank, world_size(), seat_.generation);
  if (!plane_) return;
  session::StepFigures figures{.generation = seat_.generation,
                               .step = progress_.committed_step,
                               .epoch = cut.epoch,
                               .loss = report_.loss,
                               .gradient_norm = report_.gradient_norm,
                               .global_samples = cut.total};
  if (data_.sample_count != 0) {
    const auto& next = progress_.sampler;
    const std::uint64_t used =
        next.epoch == cut.epoch ? next.cursor - state::count_of(next.returned) : data_.sample_count;
    figures.epoch_fraction = static_cast<double>(used) / static_cast<double>(data_.sample_count);
  }
  monitors_.step_done(times, figures, now);
  swap_gap_.committed(now);
  tell_swap(swap_gap_.take());
  if (environment_.audit_every != 0) audit(cut);
}

void Session::Impl::audit(const state::Cut& cut) {
  protocol::AuditStep record{.generation = seat_.generation, .step = progress_.committed_step, .epoch = cut.epoch};
  record.hashed = progress_.committed_step % environment_.audit_every == 0;
  if (record.hashed) record.state_hash = buffers_.content_hash();
  auto pieces = cut.part(seat_.rank);
  if (pieces.empty()) pieces.push_back({cut.pieces.empty() ? 0 : cut.pieces.front().first, 0});
  for (const auto& [first, count] : pieces) {
    record.first_position = first;
    record.count = count;
    audit_log_.add(record);
    record.hashed = false;
    record.state_hash = 0;
  }
}

void Session::Impl::call_on_change(std::uint32_t previous_world, bool joined, const std::string& reason) {
  if (!on_change_) return;
  on_change_({.generation = seat_.generation,
              .rank = seat_.rank,
              .world_size = world_size(),
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
