#include "launcher/agent/agent_service.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

#include "launcher/agent/host_facts.h"
#include "launcher/agent_marker.h"
#include "launcher/build_id.h"
#include "launcher/session_sweep.h"
#include "supervisor/protocol/codec.h"

namespace elastictrain::launcher {
namespace {

using namespace protocol;

// While this much waits for the supervisor, output stays in the workers' buffers and messages in their sockets.
constexpr std::size_t kOutputBacklogBytes = 1u << 20;
constexpr std::size_t kMessageBacklogBytes = 16u << 20;
constexpr std::size_t kOutputBatchBytes = 64u << 10;
constexpr std::chrono::milliseconds kOutputPeriod{20};
constexpr std::size_t kMaxKeptExits = 4096;

void say(const std::string& text) {
  std::fprintf(stderr, "elastictrain agent: %s\n", text.c_str());
}

std::string random_hex() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", random());
    text += part;
  }
  return text;
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

}  // namespace

AgentService::AgentService(asio::io_context& io, AgentBootstrap bootstrap, PrivateDirectory directory)
    : io_(io),
      bootstrap_(std::move(bootstrap)),
      directory_(std::move(directory)),
      host_key_(random_hex()),
      self_path_(self_path()),
      link_(io, bootstrap_,
            {[this] { went_up(); }, [this](AgentDown order) { perform(std::move(order)); },
             [this](const Error& error) { went_away(error); }, [this](const Error& error) { is_gone(error); }}),
      signals_(io, SIGTERM, SIGINT),
      tick_timer_(io),
      output_timer_(io) {}

AgentService::~AgentService() = default;

void AgentService::start() {
  wait_for_signal();
  link_.start();
}

// ---------------------------------------------------------------------------------------------------------------
// The connection

void AgentService::went_up() {
  link_.send(hello());
  if (report_sequence_ > 0) return send_truth();
  // The launcher that started us reads this.
  std::printf("%s\n", kConnectedLine);
  std::fflush(stdout);
  tick();
}

AgentHello AgentService::hello() const {
  const HostFacts facts = host_facts();
  return {limits::kProtocolVersion, facts.binary_version, bootstrap_.agent, host_name(), ::getpid(), facts.cores,
          facts.memory_bytes,       facts.wall_clock_us};
}

void AgentService::send_truth() {
  for (const auto& [id, worker] : workers_) {
    link_.send(WorkerSpawned{id, worker->pid()});
    for (const auto& message : worker->record().truth()) link_.send(FromWorker{id, message});
    worker->record().clear_kept();
  }
  for (const auto& exited : exits_) link_.send(exited);
  schedule_output();
}

void AgentService::went_away(const Error& error) {
  say("lost the supervisor (" + error.message + "); the workers go on for " +
      std::to_string(bootstrap_.orphan_grace_ms) + " ms");
}

void AgentService::is_gone(const Error& error) {
  say("cannot reach the supervisor at " + join(bootstrap_.addresses) + " port " + std::to_string(bootstrap_.port) +
      ": " + error.message);
  stop(Milliseconds(bootstrap_.grace_ms), kAgentUnreachable);
}

// ---------------------------------------------------------------------------------------------------------------
// Orders

void AgentService::perform(AgentDown order) {
  std::visit([this](auto& alternative) { on(alternative); }, order);
}

void AgentService::on(SpawnWorker& order) {
  const WorkerId id = order.worker;
  const Status spawned = spawn(order);
  if (spawned)
    link_.send(WorkerSpawned{id, workers_.at(id)->pid()});
  else
    link_.send(WorkerSpawnFailed{id, spawned.error().message});
}

void AgentService::on(const SignalWorker& order) {
  Worker* worker = find(order.worker);
  if (worker != nullptr && order.signal > 0 && order.signal < NSIG) worker->signal(order.signal);
}

void AgentService::on(const StopWorker& order) {
  if (Worker* worker = find(order.worker)) worker->stop(Milliseconds(order.grace_ms));
}

void AgentService::on(const ToWorkers& order) {
  const auto frame = std::make_shared<const std::string>(encode_frame(order.message));
  for (const WorkerId id : order.workers) {
    if (Worker* worker = find(id)) worker->send(frame);
  }
}

void AgentService::on(const StopAgent& order) {
  stop(Milliseconds(order.grace_ms), kAgentStopped);
}

void AgentService::on(const CheckHost&) {
  link_.send(host_facts());
}

Status AgentService::spawn(SpawnWorker& order) {
  if (stopping_) return Error{ErrorCode::kAborted, "the agent is stopping"};
  if (workers_.contains(order.worker)) {
    return Error{ErrorCode::kInvalid, "worker " + to_string(order.worker) + " is already here"};
  }
  auto environment = environment_for(order);
  if (!environment) return environment.error();
  const WorkerId id = order.worker;
  if (!order.argv.empty() && order.argv[0] == "@self") order.argv[0] = self_path_;
  auto worker =
      Worker::start(io_, {std::move(order), std::move(*environment), directory_.path() + "/" + to_string(id) + ".sock"},
                    hooks_for(id));
  if (!worker) return worker.error();
  workers_[id] = std::move(*worker);
  return {};
}

Result<std::vector<std::string>> AgentService::environment_for(const SpawnWorker& order) const {
  Result<std::vector<std::string>> addresses(std::vector<std::string>{link_.local_address()});
  if (!bootstrap_.interface.empty()) addresses = interface_addresses(bootstrap_.interface);
  if (!addresses) return addresses.error();
  const std::string name = to_string(order.worker);
  auto environment = merge_environment(own_environment(), order.environment);
  return merge_environment(
      std::move(environment),
      {"ELASTICTRAIN_SOCKET=" + directory_.path() + "/" + name + ".sock",
       "ELASTICTRAIN_WORKER_ID=" + std::to_string(order.worker.value), "ELASTICTRAIN_HOST_KEY=" + host_key_,
       "ELASTICTRAIN_BIND=" + join(*addresses), "ELASTICTRAIN_HEARTBEAT_MS=" + std::to_string(bootstrap_.heartbeat_ms),
       "ELASTICTRAIN_ORPHAN_GRACE_MS=" + std::to_string(bootstrap_.orphan_grace_ms),
       "TORCHELASTIC_ERROR_FILE=" + directory_.path() + "/" + name + "-error.json"});
}

Worker* AgentService::find(WorkerId worker) {
  const auto place = workers_.find(worker);
  return place == workers_.end() ? nullptr : place->second.get();
}

// ---------------------------------------------------------------------------------------------------------------
// What workers say and how they end

WorkerHooks AgentService::hooks_for(WorkerId worker) {
  return {[this, worker](WorkerUp message) { worker_said(worker, std::move(message)); }, [this] { schedule_output(); },
          [this](const WorkerExited& exited) { worker_ended(exited); },
          [this] { return link_.queued_bytes() < kMessageBacklogBytes; }};
}

void AgentService::worker_said(WorkerId id, WorkerUp message) {
  Worker* worker = find(id);
  if (worker == nullptr || !worker->record().take(message, std::chrono::steady_clock::now())) return;
  if (link_.up())
    link_.send(FromWorker{id, std::move(message)});
  else
    worker->record().keep_for_later(message);
}

void AgentService::worker_ended(const WorkerExited& exited) {
  Worker& worker = *workers_.at(exited.worker);
  send_report();
  // The rest of its output goes whatever waits already: it is bounded, and nothing may follow the exit.
  if (link_.up()) {
    while (send_next_batch(worker)) {
    }
  }
  link_.send(exited);
  exits_.push_back(exited);
  if (exits_.size() > kMaxKeptExits) exits_.pop_front();
  workers_.erase(exited.worker);
  finish_if_empty();
}

void AgentService::schedule_output() {
  if (std::exchange(output_scheduled_, true)) return;
  output_timer_.expires_after(kOutputPeriod);
  output_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    output_scheduled_ = false;
    send_output();
  });
}

// Round by round, so that one loud worker does not keep the others' lines back.
void AgentService::send_output() {
  bool more = link_.up();
  while (more && link_.queued_bytes() < kOutputBacklogBytes) {
    more = false;
    for (const auto& [id, worker] : workers_) more = send_next_batch(*worker) || more;
  }
  if (more) schedule_output();
}

bool AgentService::send_next_batch(Worker& worker) {
  WorkerOutput output;
  if (!worker.take_output(kOutputBatchBytes, output)) return false;
  link_.send(output);
  return true;
}

// ---------------------------------------------------------------------------------------------------------------
// Reports, signals, the end

void AgentService::tick() {
  send_report();
  reap_adopted([this](pid_t pid) {
    return std::any_of(workers_.begin(), workers_.end(),
                       [pid](const auto& entry) { return entry.second->pid() == pid; });
  });
  tick_timer_.expires_after(Milliseconds(std::max<std::uint64_t>(bootstrap_.heartbeat_ms, 1)));
  tick_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) tick();
  });
}

void AgentService::send_report() {
  AgentReport report{++report_sequence_, {}};
  if (!link_.up()) return;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [id, worker] : workers_) {
    auto pulse = worker->record().pulse(id, now, Milliseconds(2 * bootstrap_.heartbeat_ms));
    if (pulse) report.workers.push_back(std::move(*pulse));
  }
  link_.send(report);
}

void AgentService::wait_for_signal() {
  signals_.async_wait([this](const asio::error_code& error, int number) {
    if (error) return;
    say("stopping on signal " + std::to_string(number));
    stop(Milliseconds(bootstrap_.grace_ms), kAgentStopped);
    if (!finished_) wait_for_signal();
  });
}

void AgentService::stop(Milliseconds grace, int exit_status) {
  if (!std::exchange(stopping_, true)) exit_status_ = exit_status;
  for (const auto& [id, worker] : workers_) worker->stop(grace);
  finish_if_empty();
}

void AgentService::finish_if_empty() {
  if (!stopping_ || !workers_.empty() || std::exchange(finished_, true)) return;
  kill_leftovers();
  link_.finish();
  signals_.cancel();
  tick_timer_.cancel();
  output_timer_.cancel();
}

// We are the subreaper of all our workers' offspring, so that what has left its group is still below us.
void AgentService::kill_leftovers() {
  for (const pid_t pid : descendants(::getpid())) ::kill(pid, SIGKILL);
}

}  // namespace elastictrain::launcher
