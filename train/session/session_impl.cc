#include "train/session/session_impl.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "supervisor/protocol/limits.h"

namespace elastictrain {
namespace {

constexpr int kSlowestStepsOfRound = 8;

// `value`: null where there is none.
std::optional<std::span<const std::byte>> view_of(const std::vector<std::byte>* value) {
  if (value == nullptr) return std::nullopt;
  return std::span<const std::byte>(*value);
}

}  // namespace

Session::Impl::Impl() : exceptions_at_start_(std::uncaught_exceptions()) {
  if (session::was_connected()) {
    throw SessionError(
        "this process, or the one that it was forked from, has had its session with the run already; a "
        "worker is one process with one session");
  }
  auto environment = session::read_environment();
  if (!environment) throw SessionError(environment.error().message);
  if (environment->is_part) {
    throw SessionError(
        "this process is a part of a replica over several hosts, whose session is that of its first process; call "
        "elastictrain.torch.replica() first");
  }
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

Session::Session() : impl_(std::make_unique<Impl>()) {}

// A child leaves everything as it is: the threads behind it are its parent's.
Session::~Session() {
  if (impl_->lifecycle_.is_inherited()) static_cast<void>(impl_.release());
}

Session::Impl::~Impl() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  // A program that leaves a step open is not done, whatever its exit status.
  if (!lifecycle_.ended) end_session(!unwinding && !lifecycle_.failed && !worker_->runner.is_open());
}

void Session::share_state(std::string_view name, void* data, std::size_t bytes) {
  impl_->add_state(name, {static_cast<std::byte*>(data), session::bytes_of("share_state()", bytes, 1)}, std::nullopt);
}

void Session::share_model(std::string_view name, float* data, std::size_t count) {
  share_state(name, data, session::bytes_of("share_model()", count, sizeof(float)));
  impl_->program_.models.model_is(std::span(data, count));
}

void Session::share_early(std::string_view name, const void* data, std::size_t bytes) {
  const bool in_step = impl_->worker_->runner.is_open();
  impl_->require(!impl_->lifecycle_.started || in_step,
                 "share_early() between two steps; call it before start(), or between next_batch() and commit_step()");
  impl_->require(data != nullptr || bytes == 0, "share_early() with a null pointer; pass the value's address");
  impl_->program_.early.share(name, {static_cast<const std::byte*>(data), session::bytes_of("share_early()", bytes, 1)},
                              in_step);
}

void Session::on_change(std::function<void(const Change&)> callback) {
  impl_->program_.on_change = std::move(callback);
}

void Session::on_other_layout(std::string division, std::function<void(OtherLayout&)> callback) {
  impl_->require_before_start("on_other_layout() after start(); call it before");
  impl_->program_.division = std::move(division);
  impl_->program_.on_other_layout = std::move(callback);
}

void Session::set_data(const DataOptions& options) {
  impl_->require_before_start("set_data() after start(); describe the data before start()");
  impl_->require(options.batch != 0, "set_data() with a batch of 0; a worker needs at least one sample per step");
  impl_->require(options.batch <= limits::kMaxBatch, "set_data() with a batch of more than 2^30 samples");
  impl_->require(options.batches_per_step != 0, "set_data() with 0 batches per step; a step has at least one");
  impl_->program_.data = options;
}

std::uint64_t Session::await_start(std::uint64_t epoch) {
  impl_->require(!impl_->lifecycle_.started, "await_start() after start(); it is for what must be done before it");
  if (!impl_->plane_) return epoch;
  if (!impl_->lifecycle_.announced) {
    const auto present = impl_->plane_->ask_epoch(epoch);
    if (present > epoch) return present;
    impl_->announce();
  }
  return impl_->plane_->await_first_assignment(epoch);
}

void Session::Impl::announce() {
  lifecycle_.announced = true;
  reserve_for_joining();
  worker_->generation_change.announce();
}

bool Session::start() {
  impl_->require(!impl_->lifecycle_.started, "start() was called twice");
  impl_->program_.log.event("imported");
  impl_->lifecycle_.started = true;
  // The streams that wrote the program's initial state there are unknown.
  if (impl_->program_.device) impl_->worker_->device.check(impl_->program_.device->device()->synchronize());
  impl_->program_.forward.commit();
  impl_->program_.first.begin();
  impl_->worker_->checkpoints.open();
  if (impl_->plane_) return impl_->start_launched();
  impl_->start_alone();
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
  worker.checkpoints.enter_first({});
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

std::optional<Batch> Session::next_batch() {
  impl_->require(impl_->lifecycle_.started, "next_batch() before start()");
  impl_->require(!impl_->worker_->runner.is_open(), "next_batch() without commit_step() for the previous batch");
  if (!impl_->worker_->runner.in_round() && !impl_->reach_next_step()) return std::nullopt;
  impl_->program_.memory.release();
  auto& worker = *impl_->worker_;
  worker.measurements.clock().step_begins(session::Clock::now());
  const auto pace = impl_->pace_of_round();
  worker.keyed.begin_step();
  worker.runner.open(pace);
  ++impl_->program_.steps_opened;
  worker.lane.claim(worker.runner.round().claim(pace));
  if (impl_->plane_) impl_->plane_->step_opened();
  const auto given = session::Clock::now();
  worker.device.step_begins(given);
  worker.measurements.clock().batch_given(given);
  const Batch batch = impl_->open_batch();
  if (impl_->program_.before_step) impl_->program_.before_step(batch);
  return batch;
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

void Session::all_reduce(float* gradient, std::size_t count) {
  impl_->require_step("all_reduce() outside a step; call next_batch() first");
  session::bytes_of("all_reduce()", count, sizeof(float));
  impl_->settle_background();
  impl_->reduce_host(impl_->worker_->runner.add(gradient, count), false);
}

void Session::all_reduce_async(float* gradient, std::size_t count) {
  impl_->require_step("all_reduce_async() outside a step; call next_batch() first");
  session::bytes_of("all_reduce_async()", count, sizeof(float));
  impl_->reduce_host(impl_->worker_->runner.add(gradient, count), true);
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

void Session::all_reduce(void* gradient, std::size_t count, DataType type) {
  impl_->all_reduce_typed(gradient, count, type, false);
}

void Session::all_reduce_async(void* gradient, std::size_t count, DataType type) {
  impl_->all_reduce_typed(gradient, count, type, true);
}

// Its share of the lane and its place among the others follow from the call, as for any bucket.
void Session::all_reduce_elsewhere_async(StartElsewhere start, FinishElsewhere finish) {
  impl_->require_step("all_reduce_elsewhere_async() outside a step; call next_batch() first");
  impl_->require(start && finish, "all_reduce_elsewhere_async() without a function; it needs both");
  impl_->require(!impl_->program_.device,
                 "all_reduce_elsewhere_async() after use_device(): gradients on that device are summed there");
  auto& runner = impl_->worker_->runner;
  impl_->require(!runner.step().averages,
                 "all_reduce_elsewhere_async() while workers average their models, which they do in memory of the "
                 "session: request gradients, or share the model and use all_reduce()");
  impl_->require(impl_->program_.variance_every == 0 && !runner.step().wants_variance,
                 "all_reduce_elsewhere_async() while the gradient variance is measured, which needs all gradients in "
                 "memory of the session: call measure_gradient_variance(0) before");
  impl_->add_elsewhere(std::move(start), std::move(finish));
}

void Session::Impl::add_elsewhere(StartElsewhere start, FinishElsewhere finish) {
  auto& runner = worker_->runner;
  const auto is_elsewhere = [](const session::Bucket& bucket) {
    return bucket.kind == session::Bucket::Kind::kElsewhere;
  };
  const auto number = std::count_if(runner.step().buckets.begin(), runner.step().buckets.end(), is_elsewhere);
  auto& bucket = runner.add(nullptr, 0);
  bucket.kind = session::Bucket::Kind::kElsewhere;
  bucket.elsewhere = std::make_shared<session::ElsewhereSum>(session::ElsewhereSum{
      std::move(start), std::move(finish), program_.steps_opened, static_cast<std::uint32_t>(number)});
  runner.submit(bucket);
  send_first_state(true);
}

void Session::wait_all_reduce() {
  impl_->require_step("wait_all_reduce() outside a step; call next_batch() first");
  impl_->settle_background();
  impl_->free_state();
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
  if (!worker_->runner.step().lane_sent) reduce_host(worker_->runner.add(nullptr, 0), false);
  send_first_state(false);
  free_state();
}

Boundary Session::boundary() {
  impl_->require_step("boundary() outside a step; call it between the step's sums and commit_step()");
  impl_->finish_sums();
  auto& worker = *impl_->worker_;
  if (worker.runner.step().discarded || worker.runner.step().is_local) return {};
  const auto& lane = worker.lane.read();
  worker.runner.count_used(lane.claims);
  const auto& division = worker.runner.step().division;
  const auto& shares = worker.exchange.assignment().shares;
  const Step committed = worker.run_progress.committed_step() + division.steps;
  Boundary brings{.change = lane.all_ready && !lane.plan_stops, .stop = lane.plan_stops || lane.all_stop};
  brings.end = lane.any_ends_data || worker.run_progress.is_used_up_after(division, shares);
  const bool is_last = brings.stop || brings.end;
  const auto plan = brings.change && impl_->plane_ ? impl_->plane_->ready_plan() : std::nullopt;
  const bool saves = is_last || (plan && plan->saves) || worker.checkpoints.is_due(committed, division.steps);
  brings.checkpoint = worker.checkpoints.is_open() && saves;
  return brings;
}

void Session::disagree(std::string_view reason) {
  impl_->require_step("disagree() outside a step; call it between the step's sums and commit_step()");
  impl_->finish_sums();
  auto& worker = *impl_->worker_;
  if (worker.runner.step().discarded) return;
  const std::string what = "step " + std::to_string(worker.run_progress.next_step()) + ": " + std::string(reason);
  if (!impl_->plane_) impl_->lifecycle_.fail(what);
  impl_->plane_->collective_failed(what, true);
  impl_->settle(Error{ErrorCode::kMismatch, what}, true);
}

void Session::decline(std::string_view reason) {
  impl_->require(!impl_->lifecycle_.started, "decline() after start(); it is for a worker that is no member");
  if (impl_->plane_) impl_->plane_->send(protocol::WorkerDeclines{std::string(reason)});
}

void Session::attach(std::string_view name, const void* data, std::size_t bytes) {
  impl_->require_step("attach() outside a step; call it between next_batch() and commit_step()");
  impl_->require(data != nullptr || bytes == 0, "attach() with a null pointer; pass the value's address");
  impl_->program_.attachments.attach(name,
                                     {static_cast<const std::byte*>(data), session::bytes_of("attach()", bytes, 1)});
}

void Session::commit_step(const StepMetrics& metrics) {
  impl_->require_step("commit_step() without next_batch()");
  impl_->finish_sums();
  auto& worker = *impl_->worker_;
  worker.device.mark_state(worker.runner.step());
  if (worker.runner.step().discarded) return impl_->discard_step();
  worker.averaging.apply_correction();
  if (worker.runner.step().is_local) {
    impl_->end_batch();
    return impl_->end_of_step(false);
  }
  impl_->program_.forward.commit();
  impl_->program_.first.commit(worker.exchange.assignment().rank == 0);
  impl_->commit_local_state(true);
  worker.runner.count_used(worker.lane.read().claims);
  worker.measurements.lane_read(worker.runner.step(), worker.lane.last());
  const Step steps = worker.runner.step().division.steps;
  impl_->commit_progress(metrics);
  if (impl_->plane_) impl_->plane_->step_committed(worker.run_progress.committed_step(), worker.lane.last().all_ready);
  worker.checkpoints.step_committed(steps);
  if (worker.view.is_behind()) worker.view.publish();
  impl_->end_of_step(true);
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
  if (plane_) worker.measurements.publish(step.division, worker.run_progress, assignment, program_.device.get(), now);
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

void Session::finish() {
  impl_->lifecycle_.require_own_process();
  if (!impl_->lifecycle_.ended) impl_->end_session(!impl_->lifecycle_.failed);
}

// What the program asks about its worker.

std::optional<std::span<const std::byte>> Session::early(std::string_view name) const {
  return view_of(impl_->program_.early.find(name));
}

std::optional<std::span<const std::byte>> Session::attachment(std::string_view name) const {
  return view_of(impl_->program_.attachments.find(name));
}

std::uint32_t Session::rank() const {
  return impl_->view().rank;
}

std::uint32_t Session::world_size() const {
  return impl_->view().world_size;
}

std::uint32_t Session::local_rank() const {
  return impl_->view().local_rank;
}

std::uint64_t Session::generation() const {
  return impl_->view().generation;
}

StepReport Session::last_step() const {
  return impl_->view().last_step;
}

std::uint64_t Session::worker_id() const {
  return impl_->worker_->id.value;
}

std::uint64_t Session::committed_step() const {
  return impl_->worker_->run_progress.progress().committed_step;
}

double Session::learning_rate_factor() const {
  return impl_->worker_->run_progress.progress().learning_rate.factor();
}

bool Session::launched() const {
  return impl_->launched();
}

Outcome Session::outcome() const {
  return impl_->lifecycle_.outcome;
}

const char* version() {
  return ELASTICTRAIN_VERSION;
}

}  // namespace elastictrain
