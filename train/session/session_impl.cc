#include "train/session/session_impl.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "supervisor/protocol/limits.h"

namespace elastictrain {
namespace {

constexpr int kSlowestStepsOfRound = 8;

}  // namespace

Session::Impl::Impl() : exceptions_at_start_(std::uncaught_exceptions()) {
  if (session::was_connected()) {
    throw SessionError(
        "this process, or the one that it was forked from, has had its session with the run already; a "
        "worker is one process with one session");
  }
  auto environment = session::read_environment();
  if (!environment) throw SessionError(environment.error().message);
  program_.environment = std::move(*environment);
  auto log = session::StepLog::open(program_.environment.step_log_directory, program_.environment.node);
  if (!log) throw SessionError(log.error().message);
  program_.log = std::move(*log);
  program_.log.event("proc");
  if (launched()) open_plane();
  worker_.emplace(program_, lifecycle_, plane_.get(), program_.environment.worker, false);
  if (plane_) plane_->start([this] { return worker_->heartbeat(); });
}

void Session::Impl::open_plane() {
  auto plane = session::ControlPlane::open(program_.environment);
  if (!plane) throw SessionError(plane.error().message);
  plane_ = std::move(*plane);
  session::mark_as_connected();
}

Session::Impl::~Impl() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  // A program that leaves a step open is not done, whatever its exit status.
  if (!lifecycle_.ended) end_session(!unwinding && !lifecycle_.failed && !worker_->runner.is_open());
}

void Session::Impl::share_state(std::string_view name, void* data, std::size_t bytes) {
  add_state(name, {static_cast<std::byte*>(data), session::bytes_of("share_state()", bytes, 1)}, std::nullopt);
}

void Session::Impl::share_model(std::string_view name, float* data, std::size_t count) {
  share_state(name, data, session::bytes_of("share_model()", count, sizeof(float)));
  program_.models.model_is(std::span(data, count));
}

void Session::Impl::share_early(std::string_view name, const void* data, std::size_t bytes) {
  const bool in_step = worker_->runner.is_open();
  lifecycle_.require(
      !lifecycle_.started || in_step,
      "share_early() between two steps; call it before start(), or between next_batch() and commit_step()");
  lifecycle_.require(data != nullptr || bytes == 0, "share_early() with a null pointer; pass the value's address");
  program_.early.share(name, {static_cast<const std::byte*>(data), session::bytes_of("share_early()", bytes, 1)},
                       in_step);
}

void Session::Impl::set_data(const DataOptions& options) {
  lifecycle_.require(lifecycle_.may_describe(), "set_data() after start(); describe the data before start()");
  lifecycle_.require(options.batch != 0, "set_data() with a batch of 0; a worker needs at least one sample per step");
  lifecycle_.require(options.batch <= limits::kMaxBatch, "set_data() with a batch of more than 2^30 samples");
  lifecycle_.require(options.batches_per_step != 0, "set_data() with 0 batches per step; a step has at least one");
  program_.data = options;
}

std::uint64_t Session::Impl::await_start(std::uint64_t epoch) {
  lifecycle_.require(!lifecycle_.started, "await_start() after start(); it is for what must be done before it");
  if (!plane_) return epoch;
  if (!lifecycle_.announced) {
    const auto present = plane_->ask_epoch(epoch);
    if (present > epoch) return present;
    announce();
  }
  return plane_->await_first_assignment(epoch);
}

void Session::Impl::announce() {
  lifecycle_.announced = true;
  reserve_for_joining();
  worker_->generation_change.announce();
}

bool Session::Impl::start() {
  lifecycle_.require(!lifecycle_.started, "start() was called twice");
  program_.log.event("imported");
  lifecycle_.started = true;
  // The streams that wrote the program's initial state there are unknown.
  if (program_.device) worker_->device.check(program_.device->device()->synchronize());
  program_.forward.commit();
  program_.first.begin();
  worker_->checkpoints.open();
  if (plane_) return start_launched();
  start_alone();
  return true;
}

bool Session::Impl::start_launched() {
  if (!lifecycle_.announced) announce();
  return worker_->generation_change.take_first_assignment();
}

void Session::Impl::start_alone() {
  auto& worker = *worker_;
  worker.exchange.take_first(session::solo_assignment(program_.data.batch));
  const auto& assignment = worker.exchange.assignment();
  if (program_.device) reach_device_alone();
  worker.run_progress.begin(assignment.shares, 1);
  worker.checkpoints.resume();
  if (worker.run_progress.committed_step() != 0) program_.local.adopt(program_.early, 0);
  program_.forward.adopt();
  program_.first.adopt();
  worker.checkpoints.enter({}, worker.checkpoints.found_earlier());
  program_.log.event("ready", assignment.rank, assignment.world_size(), assignment.generation);
  worker.view.publish_first(0);
}

// Page faults in the first steps would delay all workers. Gradients are as large as the model, if the program shares
// one.
void Session::Impl::reserve_for_joining() {
  program_.buffers.populate();
  const bool has_peers = program_.environment.world_size != 1;
  if (has_peers && program_.environment.keep_gradients && !program_.device) {
    program_.copies.reserve(program_.models.model_floats());
  }
}

std::optional<Batch> Session::Impl::next_batch() {
  lifecycle_.require(lifecycle_.started, "next_batch() before start()");
  lifecycle_.require(!worker_->runner.is_open(), "next_batch() without commit_step() for the previous batch");
  if (!worker_->runner.in_round() && !reach_next_step()) return std::nullopt;
  program_.memory.release();
  auto& worker = *worker_;
  worker.measurements.clock().step_begins(session::Clock::now());
  const auto pace = pace_of_round();
  worker.keyed.begin_step();
  worker.runner.open(pace);
  worker.lane.claim(worker.runner.round().claim(pace));
  if (plane_) plane_->step_opened();
  const auto given = session::Clock::now();
  worker.device.step_begins(given);
  worker.measurements.clock().batch_given(given);
  return open_batch();
}

bool Session::Impl::reach_next_step() {
  account_for_dropped_samples();
  if (lifecycle_.is_running() && worker_->run_progress.data_is_used_up()) finish_training();
  meets_others_in_next_step_ = false;
  return lifecycle_.is_running();
}

Batch Session::Impl::open_batch() const {
  const auto& worker = *worker_;
  const auto& step = worker.runner.step();
  const auto& round = worker.runner.round();
  const bool is_first = round.batches() == 1;
  return Batch{.step = worker.run_progress.committed_step() + round.batches(),
               .epoch = step.division.cut.epoch,
               .samples = step.samples,
               .local_samples = round.batch_samples(),
               .global_samples =
                   worker.run_progress.runs_ahead() ? worker.exchange.assignment().samples() : step.division.cut.total,
               .first_of_epoch = step.division.cut.first_of_epoch && is_first};
}

session::RoundPace Session::Impl::pace_of_round() const {
  const auto& worker = *worker_;
  const std::chrono::duration<double, std::micro> slowest(worker.lane.last().slowest_compute_us);
  // With a step that is long beside the round, the others would wait for it at every meeting.
  const auto least = std::chrono::duration_cast<session::Clock::duration>(kSlowestStepsOfRound * slowest);
  return {.now = session::Clock::now(),
          .length = std::max<session::Clock::duration>(program_.environment.round, least),
          .own_step = worker.measurements.own_step(),
          .must_meet = !may_run_ahead() || worker.lane.ends_data() || plane_->waits_for_meeting(),
          .may_run_ahead = may_run_ahead()};
}

// Whether this program's workers can be at different batches: nothing of theirs needs all of them in every step.
bool Session::Impl::may_run_ahead() const {
  const auto& environment = program_.environment;
  const bool is_asked = plane_ != nullptr && environment.round.count() > 0 &&
                        worker_->averaging.synchronization() == protocol::Synchronization::kPairAveraging;
  return is_asked && environment.keep_gradients && worker_->exchange.assignment().world_size() > 1 &&
         !program_.keeps_step && !program_.data.drop_last && program_.forward.empty() && program_.first.empty() &&
         program_.local.is_empty();
}

void Session::Impl::account_for_dropped_samples() {
  if (!plane_ || !worker_->audits.is_on() || !lifecycle_.is_running()) return;
  if (const auto dropped = worker_->run_progress.dropped_epoch()) worker_->audits.account_for(*dropped);
}

void Session::Impl::all_reduce(float* gradient, std::size_t count) {
  require_step("all_reduce() outside a step; call next_batch() first");
  session::bytes_of("all_reduce()", count, sizeof(float));
  settle_background();
  reduce_host(worker_->runner.add(gradient, count), false);
}

void Session::Impl::all_reduce_async(float* gradient, std::size_t count) {
  require_step("all_reduce_async() outside a step; call next_batch() first");
  session::bytes_of("all_reduce_async()", count, sizeof(float));
  reduce_host(worker_->runner.add(gradient, count), true);
}

void Session::Impl::all_reduce_typed(void* gradient, std::size_t count, DataType type, bool in_background) {
  require_step("all_reduce() outside a step; call next_batch() first");
  if (!in_background) settle_background();
  reduce_host(add_narrow(gradient, count, type), in_background);
}

// In single precision, the gradient is reduced where it is.
session::Bucket& Session::Impl::add_narrow(void* gradient, std::size_t count, DataType type) {
  const bool is_narrow = type == DataType::kFloat16 || type == DataType::kBFloat16;
  lifecycle_.require(is_narrow || type == DataType::kFloat32,
                     "all_reduce() of a gradient that is neither kFloat32 nor kFloat16 nor kBFloat16");
  session::bytes_of("all_reduce()", count, sizeof(float));
  if (!is_narrow) return worker_->runner.add(static_cast<float*>(gradient), count);
  auto& bucket = worker_->runner.add(nullptr, count);
  bucket.narrow = gradient;
  bucket.element = type == DataType::kFloat16 ? comm::Element::kFloat16 : comm::Element::kBfloat16;
  return bucket;
}

void Session::Impl::reduce_host(session::Bucket& bucket, bool in_background) {
  auto& worker = *worker_;
  if (!in_background) worker.measurements.clock().collective_begins(session::Clock::now());
  worker.narrow.make_room(bucket);
  worker.host.prepare_memory(worker.runner.step(), bucket);
  if (in_background) {
    worker.runner.submit(bucket);
  } else {
    settle(worker.runner.reduce(bucket), true);
  }
  send_first_state(in_background);
}

void Session::Impl::wait_all_reduce() {
  require_step("wait_all_reduce() outside a step; call next_batch() first");
  settle_background();
  free_state();
}

void Session::Impl::settle_background() {
  auto& worker = *worker_;
  if (!worker.runner.in_background()) return;
  const auto& last = worker.runner.step().last_of_pass();
  // Until then it computes, whatever the reducer does meanwhile.
  worker.device.check(worker.device.await_pass(worker.runner.step()));
  worker.measurements.clock().collective_begins(worker.device.input_time(last));
  worker.keyed.close();
  settle(worker.runner.wait(), true);
  worker.keyed.reopen();
}

// Where the program may write its state, whatever it has reduced in this step.
void Session::Impl::free_state() {
  auto& worker = *worker_;
  const auto& step = worker.runner.step();
  if (step.state_is_free || step.discarded) return;
  worker.measurements.clock().collective_begins(session::Clock::now());
  settle({}, true);
}

// Returns when all buckets so far are reduced, after any number of recoveries, or the step is given up. `frees_state`:
// not before the transfers and copies of the state have ended either, because the program may write it next.
void Session::Impl::settle(Status status, bool frees_state) {
  auto& worker = *worker_;
  auto& step = worker.runner.step();
  step.state_is_free = step.state_is_free || frees_state;
  if (step.state_is_free) worker.checkpoints.await_copy();
  while (!step.discarded) {
    if (status) status = worker.runner.settle_transfers();
    if (status && step.state_is_free) status = worker.handover.finish();
    if (status) break;
    if (!plane_ || status.error().code == ErrorCode::kInvalid) {
      lifecycle_.fail("all-reduce of step " + std::to_string(worker.run_progress.next_step()) +
                      " failed: " + status.error().message);
    }
    if (worker.recovery.take_assignment()) {
      status = worker.runner.repeat();
    } else {
      step.discarded = true;
    }
  }
  if (step.discarded) {
    worker.runner.settle_discarded();
  } else {
    if (step.state_is_free) worker.averaging.adopt_equal_state(step);
    if (step.lane_sent && !step.is_local) worker.exchange.step_reduced();
  }
  worker.measurements.clock().collective_ends(worker.device.sum_time(step));
}

// All that others take part in is done, and what the lane says is known.
void Session::Impl::finish_sums() {
  settle_background();
  if (!worker_->runner.step().lane_sent) all_reduce(nullptr, 0);
  send_first_state(false);
  free_state();
}

Boundary Session::Impl::boundary() {
  require_step("boundary() outside a step; call it between the step's sums and commit_step()");
  finish_sums();
  auto& worker = *worker_;
  if (worker.runner.step().discarded || worker.runner.step().is_local) return {};
  const auto& lane = worker.lane.read();
  worker.runner.count_used(lane.claims);
  const auto& division = worker.runner.step().division;
  const auto& shares = worker.exchange.assignment().shares;
  const Step committed = worker.run_progress.committed_step() + division.steps;
  Boundary brings{.change = lane.all_ready && !lane.plan_stops, .stop = lane.plan_stops || lane.all_stop};
  brings.end = lane.any_ends_data || worker.run_progress.is_used_up_after(division, shares);
  const bool is_last = brings.stop || brings.end;
  const auto plan = brings.change && plane_ ? plane_->ready_plan() : std::nullopt;
  const bool saves = is_last || (plan && plan->saves) || worker.checkpoints.is_due(committed, division.steps);
  brings.checkpoint = worker.checkpoints.is_open() && saves;
  return brings;
}

void Session::Impl::disagree(std::string_view reason) {
  require_step("disagree() outside a step; call it between the step's sums and commit_step()");
  finish_sums();
  auto& worker = *worker_;
  if (worker.runner.step().discarded) return;
  const std::string what = "step " + std::to_string(worker.run_progress.next_step()) + ": " + std::string(reason);
  if (!plane_) lifecycle_.fail(what);
  plane_->collective_failed(what, true);
  settle(Error{ErrorCode::kMismatch, what}, true);
}

void Session::Impl::decline(std::string_view reason) {
  lifecycle_.require(!lifecycle_.started, "decline() after start(); it is for a worker that is no member");
  if (plane_) plane_->send(protocol::WorkerDeclines{std::string(reason)});
}

void Session::Impl::attach(std::string_view name, const void* data, std::size_t bytes) {
  require_step("attach() outside a step; call it between next_batch() and commit_step()");
  lifecycle_.require(data != nullptr || bytes == 0, "attach() with a null pointer; pass the value's address");
  program_.attachments.attach(name, {static_cast<const std::byte*>(data), session::bytes_of("attach()", bytes, 1)});
}

void Session::Impl::commit_step(const StepMetrics& metrics) {
  require_step("commit_step() without next_batch()");
  finish_sums();
  auto& worker = *worker_;
  worker.device.mark_state(worker.runner.step());
  if (worker.runner.step().discarded) return discard_step();
  worker.averaging.apply_correction();
  if (worker.runner.step().is_local) {
    end_batch();
    return end_of_step(false);
  }
  program_.forward.commit();
  program_.first.commit(worker.exchange.assignment().rank == 0);
  commit_local_state(true);
  worker.runner.count_used(worker.lane.read().claims);
  worker.measurements.lane_read(worker.runner.step(), worker.lane.last());
  const Step steps = worker.runner.step().division.steps;
  commit_progress(metrics);
  if (plane_) plane_->step_committed(worker.run_progress.committed_step(), worker.lane.last().all_ready);
  worker.checkpoints.step_committed(steps);
  if (worker.view.is_behind()) worker.view.publish();
  end_of_step(true);
}

// Of a round that goes on: nothing that all workers share has changed.
void Session::Impl::end_batch() {
  auto& worker = *worker_;
  worker.extension->publish_model();
  worker.measurements.batch_ends(session::Clock::now());
  const auto& assignment = worker.exchange.assignment();
  program_.log.step(worker.run_progress.committed_step() + worker.runner.round().batches(), assignment.rank,
                    assignment.world_size(), assignment.generation);
  worker.runner.end_batch();
  plane_->batch_done();
}

void Session::Impl::commit_progress(const StepMetrics& metrics) {
  auto& worker = *worker_;
  const auto& assignment = worker.exchange.assignment();
  const auto now = session::Clock::now();
  session::OpenStep step = worker.runner.take();
  worker.lane.report(worker.measurements.step_ends(step, metrics.loss, now));
  worker.run_progress.commit(step.division, step.averages, assignment.shares);
  run_ahead();
  program_.early.commit();
  program_.attachments.commit(worker.run_progress.committed_step());
  program_.log.step(worker.run_progress.committed_step(), assignment.rank, assignment.world_size(),
                    assignment.generation);
  if (plane_) worker.measurements.publish(step.division, worker.run_progress, assignment, now);
  worker.audits.step_committed(std::move(step));
  worker.exchange.step_committed();
}

// If all workers can.
void Session::Impl::run_ahead() {
  auto& worker = *worker_;
  const auto& claims = worker.lane.last().claims;
  const auto can = [](const session::Claim& claim) { return claim.batches != 0; };
  if (claims.empty() || !std::all_of(claims.begin(), claims.end(), can)) return;
  worker.run_progress.run_ahead(claims);
  if (worker.run_progress.runs_ahead()) worker.extension->publish_model();
}

// What the program does behind the step belongs to it: on the members that made it, before any of them has another
// assignment.
void Session::Impl::end_of_step(bool at_boundary) {
  const std::exception_ptr thrown = after_step();
  const auto hook = std::exchange(hook_, Hook::kNone);
  if (at_boundary) pass_boundary(hook == Hook::kInterrupted);
  if (thrown) std::rethrow_exception(thrown);
}

// What the hook throws; a loss that has ended it is no error.
std::exception_ptr Session::Impl::after_step() {
  if (!program_.after_step) return nullptr;
  hook_ = Hook::kRuns;
  try {
    program_.after_step(view().last_step);
  } catch (const SessionInterrupted&) {
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

// The boundary, at which the lane's sum decides for all workers alike. An assignment that was agreed on is taken also
// where a loss has ended the hook: others may have taken it, and all must divide the next step alike.
void Session::Impl::pass_boundary(bool hook_was_interrupted) {
  auto& worker = *worker_;
  const auto& lane = worker.lane.last();
  if (lane.any_ends_data) worker.run_progress.end_data();
  if (lane.all_ready) {
    worker.generation_change.change();
    if (lifecycle_.parks) park();
  } else if (lane.all_stop) {
    worker.checkpoints.write_by_first_rank();
    lifecycle_.outcome = Outcome::kStopped;
  } else if (hook_was_interrupted) {
    take_next_assignment();
  }
}

// The step that the others finish without this worker: its result in the program is replaced by the state that they
// send.
void Session::Impl::discard_step() {
  worker_->measurements.clock().step_ends(session::Clock::now());
  worker_->runner.take();
  program_.early.discard();
  program_.attachments.discard();
  program_.local.discard();
  plane_->step_discarded();
  meets_others_in_next_step_ = true;
  rejoin();
}

void Session::Impl::finish() {
  lifecycle_.require_own_process();
  if (!lifecycle_.ended) end_session(!lifecycle_.failed);
}

}  // namespace elastictrain
