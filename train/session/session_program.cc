// What a program can use besides training: measurements, announcements, and requests about the run.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "supervisor/protocol/names.h"
#include "train/session/process_signals.h"
#include "train/session/session_impl.h"

namespace elastictrain {

void Session::step_hooks(std::function<void(const Batch&)> before, std::function<void(const StepReport&)> after) {
  impl_->require(!impl_->lifecycle_.ended, "step_hooks() after finish()");
  impl_->program_.before_step = std::move(before);
  impl_->program_.after_step = std::move(after);
}

namespace {

static_assert(static_cast<int>(Synchronization::kPairAveraging) ==
              static_cast<int>(protocol::Synchronization::kPairAveraging));

// The number at the start of `text`. It is removed from `text`, together with `end` if that follows.
std::uint64_t take_number(std::string_view& text, char end) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number == 0) {
    throw SessionError("a schedule is \"size:steps,size:steps\" with numbers above 0; at \"" + std::string(text) +
                       "\" it is not");
  }
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (!text.empty() && text.front() == end) text.remove_prefix(1);
  return number;
}

}  // namespace

void Session::ignore_notices(std::int64_t worker) {
  session::ignore_notices(static_cast<pid_t>(worker));
}

std::uint32_t Session::step_based_schedule(std::string_view schedule, std::uint64_t step) {
  std::uint64_t size = 1;
  std::uint64_t until = 0;
  while (!schedule.empty()) {
    size = take_number(schedule, ':');
    until += take_number(schedule, ',');
    if (step < until) break;
  }
  return static_cast<std::uint32_t>(size);
}

LookAhead Session::look_ahead(std::uint32_t batches) const {
  impl_->program_.keeps_step = true;
  impl_->require(impl_->lifecycle_.started, "look_ahead() before start(); call start() first");
  if (!impl_->lifecycle_.is_running()) return {};
  const auto& worker = *impl_->worker_;
  std::vector<std::vector<state::WorkerShare>> upcoming{worker.exchange.assignment().shares};
  const auto plan = impl_->plane_ ? impl_->plane_->ready_plan() : std::nullopt;
  if (plan) upcoming = {session::first_shares(*plan), session::all_shares(*plan)};
  const auto* open = worker.runner.is_open() ? &worker.runner.step().division : nullptr;
  return worker.run_progress.look_ahead(worker.id, batches, open, upcoming);
}

RunMonitors Session::monitors() const {
  const auto& worker = *impl_->worker_;
  auto monitors = worker.measurements.run_monitors(worker.lane.last());
  // No other thread may use the communicator while the reducer does.
  if (!worker.runner.in_background()) session::add_traffic(monitors, worker.exchange.assignment());
  return monitors;
}

void Session::board_put(std::string_view key, const void* value, std::size_t bytes) {
  impl_->lifecycle_.require_own_process();
  impl_->board().put(key, {static_cast<const char*>(value), bytes});
}

std::optional<std::vector<std::byte>> Session::board_get(std::string_view key, std::chrono::milliseconds wait) {
  impl_->lifecycle_.require_own_process();
  const auto value = impl_->board().get(key, wait);
  if (!value) return std::nullopt;
  const auto bytes = std::as_bytes(std::span(*value));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

std::vector<PeerMonitors> Session::peer_monitors() const {
  const auto& assignment = impl_->worker_->exchange.assignment();
  if (impl_->worker_->runner.in_background()) return std::vector<PeerMonitors>(assignment.world_size());
  return session::peer_monitors_of(assignment);
}

void Session::measure_gradient_variance(std::uint64_t every_steps) {
  impl_->program_.variance_every = every_steps;
}

std::uint64_t Session::half_batch() const {
  return impl_->worker_->runner.is_open() ? impl_->worker_->runner.step().first_half : 0;
}

void Session::report_halves(double first_square, double second_square) {
  impl_->require_step("report_halves() outside a step; call it between next_batch() and commit_step()");
  auto& step = impl_->worker_->runner.step();
  impl_->require(step.first_half != 0,
                 "report_halves() in a step that does not ask for it; call it if half_batch() is above 0");
  impl_->require(!(first_square < 0) && !(second_square < 0),
                 "report_halves(): a squared norm is not below 0; pass the sums of the gradients' squares");
  step.halves_square = (first_square + second_square) / 2;
}

Synchronization Session::synchronization() const {
  return static_cast<Synchronization>(impl_->worker_->averaging.synchronization());
}

void Session::Impl::ask(const protocol::WorkerRequest& request) {
  lifecycle_.require(lifecycle_.started, "a request before start(); call start() first");
  worker_->requests.ask(request, session::Clock::now());
}

void Session::phase(std::string_view name) {
  const auto phase = protocol::program_phase_named(name);
  impl_->require(phase.has_value(),
                 "phase(): a phase is \"data\", \"evaluation\", \"compile\" or \"checkpoint\", or empty at its end");
  const auto now = session::Clock::now();
  auto& clock = impl_->worker_->measurements.clock();
  if (*phase == protocol::ProgramPhase::kNone) {
    clock.phase_ends(now);
  } else {
    clock.phase_begins(*phase == protocol::ProgramPhase::kData, now);
  }
  if (impl_->plane_) impl_->plane_->enter_phase(*phase);
}

void Session::device_memory(std::uint64_t total_bytes, std::uint64_t free_bytes) {
  impl_->lifecycle_.require_not_ended();
  impl_->require(!impl_->program_.device, "device_memory() with use_device(), with which the session asks itself");
  impl_->require(free_bytes <= total_bytes, "device_memory(): more bytes are free than there are");
  impl_->worker_->measurements.device_memory_known({total_bytes, free_bytes, 0, 0});
}

void Session::note(std::string_view key, std::string_view value) {
  impl_->lifecycle_.require_not_ended();
  if (!impl_->lifecycle_.started || impl_->worker_->exchange.assignment().rank != 0) return;
  impl_->worker_->notes.add(key, value, session::Clock::now());
}

namespace {

void check(bool is_right, const std::string& message) {
  if (!is_right) throw SessionError(message);
}

}  // namespace

void Session::request_resize(std::uint32_t workers) {
  check(workers != 0, "request_resize(0): a run has at least one worker");
  impl_->ask({.workers = workers});
}
void Session::request_batch(std::uint32_t per_worker) {
  check(per_worker != 0, "request_batch(0): a worker needs at least one sample per step");
  impl_->ask({.per_worker = per_worker});
}
void Session::request_learning_rate_factor(double factor) {
  check(std::isfinite(factor) && factor > 0, "request_learning_rate_factor(): a factor must be above 0");
  impl_->ask({.learning_rate_factor = factor});
}
void Session::request_synchronization(Synchronization synchronization) {
  const auto target = static_cast<protocol::Synchronization>(synchronization);
  check(target <= protocol::Synchronization::kPairAveraging, "request_synchronization(): this kind does not exist");
  impl_->ask({.synchronization = std::string(protocol::name_of(target))});
}
}  // namespace elastictrain
