// What a program can use besides training: its own data shared in a step, measurements, and requests about the run.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>

#include "supervisor/protocol/topology_choice.h"
#include "train/session/session_impl.h"

namespace elastictrain {
namespace {

using BucketKind = session::Bucket::Kind;

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

void Session::Impl::sum(float* data, std::size_t count) {
  require(step_.has_value(), "sum() outside a step; call next_batch() first");
  if (async_pending_) wait_all_reduce();
  auto& bucket = add_bucket(data, count);
  bucket.kind = BucketKind::kSum;
  share_own_data(bucket);
}

void Session::Impl::broadcast(void* data, std::size_t bytes) {
  require(step_.has_value(), "broadcast() outside a step; call next_batch() first");
  if (async_pending_) wait_all_reduce();
  auto& bucket = add_bucket(nullptr, 0);
  bucket.kind = BucketKind::kBroadcast;
  bucket.bytes = {static_cast<std::byte*>(data), bytes};
  share_own_data(bucket);
}

void Session::Impl::share_own_data(session::Bucket& bucket) {
  clock_.collective_begins(session::Clock::now());
  settle_buckets(step_->discarded ? Status() : reduce_bucket(bucket));
}

// Uses a copy of the original, so that it can be shared again among the survivors after a loss.
Status Session::Impl::reduce_own_data(session::Bucket& bucket) {
  if (auto status = send_lane(); !status) return status;
  const bool sums = bucket.kind == BucketKind::kSum;
  const std::span<std::byte> bytes = sums ? std::as_writable_bytes(std::span(bucket.data, bucket.count)) : bucket.bytes;
  if (bytes.empty()) return {};
  const std::size_t count = (bytes.size() + sizeof(float) - 1) / sizeof(float);
  if (std::exchange(bucket.copied, true)) {
    std::memcpy(bytes.data(), bucket.copy.data(), bytes.size());
  } else {
    bucket.copy = copies_.of_bucket(bucket.index, count);
    std::memcpy(bucket.copy.data(), bytes.data(), bytes.size());
  }
  return in_collective("sharing the program's data", [&] {
    if (sums) return seat_.communicator->all_reduce({bucket.data, bucket.count});
    return seat_.communicator->broadcast(bucket.bytes, 0);
  });
}

void Session::Impl::square_into(const session::Bucket& bucket) {
  squares_.resize(bucket.count);
  for (std::size_t i = 0; i < bucket.count; ++i) squares_[i] = bucket.data[i] * bucket.data[i];
}

//  avg(g^2) - avg(g)^2 | of a bucket whose average is known: one more all-reduce, for the squares.
Status Session::Impl::add_variance(const session::Bucket& bucket, float scale) {
  comm::ReduceOptions options;
  options.scale = scale;
  if (auto status = seat_.communicator->all_reduce(squares_, options); !status) return status;
  double square_sum = 0;
  for (std::size_t i = 0; i < bucket.count; ++i) {
    const double variance = static_cast<double>(squares_[i]) - static_cast<double>(bucket.data[i]) * bucket.data[i];
    square_sum += variance * variance;
  }
  step_->gradient_variance += std::sqrt(square_sum);
  return {};
}

RunMonitors Session::Impl::run_monitors() const {
  const auto noise_scale = noise_scale_.value();
  RunMonitors monitors{.has_noise_scale = noise_scale.has_value(),
                       .noise_scale = noise_scale.value_or(0),
                       .gradient_norm = report_.gradient_norm,
                       .gradient_variance = gradient_variance_,
                       .slowest_rank = lane_output_.slowest_rank,
                       .slowest_compute_us = lane_output_.slowest_compute_us,
                       .step_us = last_times_.step_us,
                       .data_wait_us = last_times_.data_wait_us,
                       .compute_us = last_times_.compute_us,
                       .communicate_us = last_times_.communicate_us,
                       .update_us = last_times_.update_us};
  // No other thread may use the communicator while the reducer does.
  if (!seat_.communicator || async_pending_) return monitors;
  const auto traffic = seat_.communicator->traffic();
  monitors.bytes_sent = traffic.bytes_sent;
  monitors.bytes_received = traffic.bytes_received;
  monitors.bytes_shared = traffic.bytes_shared;
  return monitors;
}

std::vector<PeerMonitors> Session::Impl::peer_monitors() const {
  std::vector<PeerMonitors> monitors(seat_.world_size());
  if (!seat_.communicator || async_pending_) return monitors;
  for (const auto& peer : seat_.communicator->peers()) {
    monitors[peer.rank] = {peer.bytes_sent, peer.bytes_received, peer.round_trip_us};
  }
  return monitors;
}

Synchronization Session::Impl::synchronization() const {
  return averages() ? static_cast<Synchronization>(seat_.synchronization) : Synchronization::kGradients;
}

// All workers may ask; the first rank's request counts. A request that is already pending is not sent again.
void Session::Impl::ask(const protocol::WorkerRequest& request) {
  require(started_, "a request before start(); call start() first");
  if (!plane_ || seat_.rank != 0) return;
  bool is_news = false;
  const auto take = [&](auto& asked, const auto& wish) {
    if (wish == std::decay_t<decltype(wish)>{} || wish == asked) return;
    asked = wish;
    is_news = true;
  };
  take(asked_.workers, request.workers);
  take(asked_.per_worker, request.per_worker);
  take(asked_.learning_rate_factor, request.learning_rate_factor);
  take(asked_.topology, request.topology);
  take(asked_.synchronization, request.synchronization);
  if (is_news) plane_->send(request);
}

namespace {

void check(bool is_right, const std::string& message) {
  if (!is_right) throw SessionError(message);
}

std::string known_topologies() {
  std::string names;
  for (const auto name : protocol::kTopologyNames) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
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
  const auto wish = static_cast<protocol::Synchronization>(synchronization);
  check(wish <= protocol::Synchronization::kPairAveraging, "request_synchronization(): this kind does not exist");
  impl_->ask({.synchronization = std::string(protocol::name_of(wish))});
}
void Session::request_topology(std::string_view name) {
  check(protocol::topology_choice(name).has_value(),
        "request_topology(): unknown topology \"" + std::string(name) + "\"; choose " + known_topologies());
  impl_->ask({.topology = std::string(name)});
}

}  // namespace elastictrain
