#include "tests/unit/supervisor/fake_agent.h"

#include <asio/error_code.hpp>
#include <asio/post.hpp>
#include <csignal>
#include <utility>
#include <vector>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::testing {
namespace {

constexpr std::uint32_t kStepsPerReport = 5;
constexpr std::chrono::milliseconds kRetryPeriod{20};

}  // namespace

FakeAgent::FakeAgent(asio::io_context& io, protocol::AgentBootstrap bootstrap, FakeBehaviour behaviour,
                     std::function<void(std::string)> ended)
    : io_(io),
      bootstrap_(std::move(bootstrap)),
      behaviour_(std::move(behaviour)),
      ended_(std::move(ended)),
      timer_(io),
      retry_(io) {}

void FakeAgent::start() {
  const transport::Key key = behaviour_.wrong_key ? transport::make_key() : bootstrap_.key;
  transport::connect(io_, bootstrap_.addresses, bootstrap_.port, key,
                     std::chrono::milliseconds(bootstrap_.connect_timeout_ms), {},
                     [self = shared_from_this()](Result<std::shared_ptr<transport::FrameConnection>> result) {
                       if (result.ok()) return self->connected(std::move(result).value());
                       if (self->was_connected_) return self->connection_ended();
                       self->ended_(self->bootstrap_.host + ": " + result.error().message);
                     });
}

void FakeAgent::connected(std::shared_ptr<transport::FrameConnection> connection) {
  if (gone_) return connection->close();
  connection_ = std::move(connection);
  connection_->start([self = shared_from_this()](const std::string& body) { self->received(body); },
                     [self = shared_from_this()](const Error&) { self->connection_ended(); });
  if (behaviour_.is_silent) return;
  protocol::AgentHello hello;
  hello.protocol_version = behaviour_.protocol_version == 0 ? limits::kProtocolVersion : behaviour_.protocol_version;
  hello.binary_version = behaviour_.binary_version.empty() ? ELASTICTRAIN_VERSION : behaviour_.binary_version;
  hello.agent = bootstrap_.agent;
  hello.host_name = bootstrap_.host;
  for (const auto& [worker, heartbeat] : workers_) hello.workers.push_back(worker);
  send(hello);
  if (std::exchange(was_connected_, true)) return repeat_worker_messages();
  if (behaviour_.after_hello) behaviour_.after_hello(*connection_);
  report_later();
}

void FakeAgent::connection_ended() {
  connection_.reset();
  if (!behaviour_.reconnects || gone_) return vanish();
  retry_.expires_after(kRetryPeriod);
  retry_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (!error && !self->gone_) self->start();
  });
}

void FakeAgent::repeat_worker_messages() {
  for (const auto& [worker, heartbeat] : workers_) {
    say_ready(worker);
    if (heartbeat.generation != 0) say(worker, protocol::WorkerActive{heartbeat.generation, 1, 0});
  }
}

void FakeAgent::vanish() {
  if (std::exchange(gone_, true)) return;
  timer_.cancel();
  retry_.cancel();
  if (connection_) connection_->close();
  ended_(bootstrap_.host + ": the agent ended");
}

void FakeAgent::send(const protocol::AgentUp& message) {
  if (connection_ && !gone_) connection_->send(protocol::encode_frame(message));
}

void FakeAgent::say(WorkerId worker, protocol::WorkerUp message) {
  send(protocol::FromWorker{worker, std::move(message)});
}

void FakeAgent::received(const std::string& body) {
  const auto order = protocol::decode_body<protocol::AgentDown>(body);
  if (!order.ok()) return vanish();
  std::visit([this](const auto& content) { on(content); }, *order);
}

void FakeAgent::on(const protocol::SpawnWorker& order) {
  spawned_[order.worker] = order;
  workers_[order.worker] = {};
  send(protocol::WorkerSpawned{order.worker, 1000 + static_cast<std::int64_t>(order.worker.value)});
  if (behaviour_.plain_workers) {
    send(protocol::WorkerOutput{order.worker, false, {"hello from " + to_string(order.worker)}, 0, {}});
    return worker_ends(order.worker, behaviour_.plain_exit_code, 0);
  }
  say_ready(order.worker);
}

void FakeAgent::say_ready(WorkerId worker) {
  const auto pid = 1000 + static_cast<std::int64_t>(worker.value);
  say(worker, protocol::WorkerHello{limits::kProtocolVersion, worker, pid, "test"});
  protocol::WorkerReady ready;
  ready.endpoint = {bootstrap_.host, {"127.0.0.1"}, 4000, ""};
  ready.state_bytes = 1000;
  ready.sample_count = 100'000;
  say(worker, ready);
}

void FakeAgent::on(const protocol::SignalWorker& order) {
  send(protocol::WorkerOutput{order.worker, true, {"signal " + std::to_string(order.signal)}, 3, {}});
}

void FakeAgent::on(const protocol::StopWorker& order) {
  worker_ends(order.worker, 0, SIGTERM);
}

void FakeAgent::on(const protocol::ToWorkers& order) {
  if (const auto* message = std::get_if<protocol::Prepare>(&order.message)) prepare(message->plan);
  for (WorkerId worker : order.workers) reported(worker, order.message);
}

void FakeAgent::on(const protocol::StopAgent&) {
  while (!workers_.empty()) worker_ends(workers_.begin()->first, 0, SIGTERM);
  gone_ = true;
  timer_.cancel();
  if (connection_) connection_->close_after_flush();
  asio::post(io_, [self = shared_from_this()] { self->ended_(""); });
}

void FakeAgent::reported(WorkerId worker, const protocol::WorkerDown& message) {
  if (const auto* order = std::get_if<protocol::Prepare>(&message)) {
    say(worker, protocol::WorkerPrepared{order->plan.generation});
  } else if (const auto* commit_order = std::get_if<protocol::Commit>(&message)) {
    commit(worker, commit_order->generation);
  } else if (std::holds_alternative<protocol::Dismiss>(message)) {
    worker_ends(worker, 0, 0);
  }
}

void FakeAgent::prepare(const protocol::GenerationPlan& plan) {
  planned_.clear();
  for (const auto& member : plan.members) {
    if (spawned_.contains(member.worker)) planned_.insert(member.worker);
  }
}

void FakeAgent::commit(WorkerId worker, Generation generation) {
  if (planned_.contains(worker)) {
    workers_[worker].generation = generation;
    return say(worker, protocol::WorkerActive{generation, step_ + 1, 0});
  }
  say(worker, protocol::WorkerLeft{generation, step_});
  worker_ends(worker, 0, 0);
}

void FakeAgent::worker_ends(WorkerId worker, int exit_code, int signal) {
  if (workers_.erase(worker) != 0) send(protocol::WorkerExited{worker, exit_code, signal, {}});
}

void FakeAgent::report_later() {
  timer_.expires_after(std::chrono::milliseconds(bootstrap_.heartbeat_ms));
  timer_.async_wait([self = shared_from_this()](asio::error_code error) {
    if (error || self->gone_) return;
    self->report();
    self->report_later();
  });
}

void FakeAgent::report() {
  protocol::AgentReport report;
  report.sequence = ++sequence_;
  step_ += kStepsPerReport;
  for (auto& [worker, heartbeat] : workers_) {
    heartbeat.sequence = sequence_;
    heartbeat.step = heartbeat.generation == 0 ? 0 : step_;
    heartbeat.epoch = 1;
    heartbeat.steps = kStepsPerReport;
    heartbeat.mean.step_us = 1000.0 * static_cast<double>(bootstrap_.heartbeat_ms) / kStepsPerReport;
    heartbeat.mean.compute_us = 0.8 * heartbeat.mean.step_us;
    heartbeat.samples_per_s = 640;
    heartbeat.loss = 0.5;
    report.workers.push_back({worker, 0, heartbeat});
  }
  send(report);
}

}  // namespace elastictrain::testing
