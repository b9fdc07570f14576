#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/error_code.hpp>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "launcher/agent/agent_service.h"
#include "launcher/agent/binding.h"
#include "launcher/agent/host_facts.h"
#include "launcher/nccl_settings.h"
#include "launcher/process/missing_program.h"
#include "launcher/process/process_attributes.h"
#include "launcher/python_command.h"
#include "launcher/text.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/codec.h"

// How a worker's process comes to be: in an assignment that is there, forked from the host's fork server, or started.

namespace elastictrain::launcher {

using namespace protocol;

namespace {

// What the fork server must not have: with them it would be a worker.
constexpr std::string_view kOfOneWorker[] = {
    "ELASTICTRAIN_SOCKET=", "ELASTICTRAIN_WORKER_ID=", "ELASTICTRAIN_REPLICA_"};

std::optional<MissingProgram> missing_program(const SpawnWorker& order) {
  if (order.argv.empty() || order.argv[0] == "@self") return std::nullopt;
  return find_missing_program(order.argv[0], merge_environment(own_environment(), order.environment),
                              order.working_directory);
}

// For the worker's processes on this host alone: they read and remove it.
Status write_key(const std::string& path, const std::array<std::uint8_t, 32>& key) {
  std::string digits;
  for (const std::uint8_t byte : key) {
    for (const int part : {byte >> 4, byte & 15}) digits.push_back("0123456789abcdef"[part]);
  }
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const auto size = static_cast<ssize_t>(digits.size());
  const bool written = file >= 0 && ::write(file, digits.data(), digits.size()) == size;
  const std::string why = std::strerror(errno);
  if (file >= 0) ::close(file);
  if (!written) return Error{ErrorCode::kIo, "cannot write " + path + ": " + why};
  return {};
}

std::vector<std::string> without_worker(std::vector<std::string> environment) {
  std::erase_if(environment, [](const std::string& entry) {
    return std::any_of(std::begin(kOfOneWorker), std::end(kOfOneWorker),
                       [&](std::string_view name) { return entry.starts_with(name); });
  });
  return environment;
}

}  // namespace

void AgentService::on(SpawnWorker& order) {
  const WorkerId id = order.worker;
  if (stopping_ || leaving_) return start_failed(order, {ErrorCode::kAborted, "the agent is stopping"});
  if (workers_.contains(id) || starting_.contains(id)) {
    return start_failed(order, {ErrorCode::kInvalid, "worker " + to_string(id) + " already runs here"});
  }
  if (pool_ && !workers_.empty()) {
    return start_failed(
        order, {ErrorCode::kInvalid, "this MPI rank is worker " + to_string(workers_.begin()->first) + " already"});
  }
  if (rank_is_spent_ || parked_) {
    const Status assigned = take_assignment(order);
    return assigned ? link_.send(WorkerSpawned{id, workers_.at(id)->pid()}) : start_failed(order, assigned.error());
  }
  if (order.warm && take_warm_assignment(order)) return link_.send(WorkerSpawned{id, workers_.at(id)->pid()});
  warm_.end_in(order.slot);
  is_of_group_ = is_of_group_ || order.replica.hosts > 1;
  const SpawnWorker ordered = order;
  if (const auto missing = missing_program(order)) {
    return link_.send(WorkerSpawnFailed{id, missing->text, missing->exit_status});
  }
  auto setup = setup_for(order);
  if (!setup) return start_failed(ordered, setup.error());
  const auto command = bootstrap_.preload.empty() || pool_ ? std::nullopt : python_command(setup->order.argv);
  if (command && has_fork_server(*command, *setup)) return fork(command->program, std::move(*setup));
  begin(std::move(*setup), std::nullopt);
}

Result<WorkerSetup> AgentService::setup_for(SpawnWorker& order) {
  auto ras = ReservedPort::take();
  ReservedPort ras_port = ras ? std::move(*ras) : ReservedPort();
  auto environment = environment_for(order, ras_port);
  if (!environment) return environment.error();
  if (value_of(*environment, "NCCL_RAS_ADDR") != ras_port.address()) ras_port = ReservedPort();
  if (!order.argv.empty() && order.argv[0] == "@self") order.argv[0] = self_path_;
  auto processors =
      processors_of_worker(value_of(order.environment, "ELASTICTRAIN_CPU_BIND").value_or("none"), *environment);
  if (!processors) return processors.error();
  if (!processors->empty()) {
    environment->push_back("ELASTICTRAIN_PROCESSORS=" + std::to_string(allowed_processors().size()));
  }
  const std::string base = directory_.path() + "/" + to_string(order.worker);
  WorkerSetup setup{std::move(order), std::move(*environment), base + ".sock", base + "-error.json"};
  setup.processors = std::move(*processors);
  setup.ras_port = std::move(ras_port);
  if (pool_) setup.descriptors = pool_->descriptors;
  if (const Status added = add_replica(setup); !added) return added.error();
  return setup;
}

// A worker on several hosts: where its processes meet, and the key by which they know one another.
Status AgentService::add_replica(WorkerSetup& setup) const {
  const ReplicaPlace& place = setup.order.replica;
  if (place.hosts == 1) return {};
  const auto addresses = data_addresses();
  if (!addresses) return addresses.error();
  std::string address = place.address;
  if (place.host == 0) {
    auto port = ReservedPort::take(addresses->front());
    if (!port) return port.error();
    setup.replica_port = std::move(*port);
    address = setup.replica_port.address();
  }
  const std::string key_file = directory_.path() + "/" + to_string(setup.order.worker) + "-replica.key";
  if (const Status written = write_key(key_file, place.key); !written) return written.error();
  setup.key_file = key_file;
  setup.environment =
      merge_environment(std::move(setup.environment),
                        {"ELASTICTRAIN_REPLICA_HOST=" + std::to_string(place.host),
                         "ELASTICTRAIN_REPLICA_ADDRESS=" + address, "ELASTICTRAIN_REPLICA_KEY_FILE=" + key_file,
                         "ELASTICTRAIN_REPLICA_INTERFACE=" + interface_of(addresses->front())});
  return {};
}

void AgentService::tell_address(const WorkerProcess& worker) {
  if (!worker.replica_address().empty()) link_.send(ReplicaListens{worker.id(), worker.replica_address()});
}

void AgentService::begin(WorkerSetup setup, std::optional<ForkedChild> child) {
  const SpawnWorker order = setup.order;
  ET_CHECK(!workers_.contains(order.worker), "an agent starts each worker once");
  setup.starts_in_background = takes_time_from_others() && may_end_background();
  auto worker = WorkerProcess::start(io_, std::move(setup), hooks_for(order.worker), std::move(child));
  if (!worker) return start_failed(order, worker.error());
  link_.send(WorkerSpawned{order.worker, (*worker)->pid()});
  tell_address(**worker);
  if (!no_fork_server_.empty()) (*worker)->add_line(std::exchange(no_fork_server_, ""));
  workers_[order.worker] = std::move(*worker);
}

void AgentService::start_failed(const SpawnWorker& order, const Error& error) {
  link_.send(WorkerSpawnFailed{order.worker, error.message});
}

// Starts it for the first worker. Without one, a worker is started in the usual way.
bool AgentService::has_fork_server(const PythonCommand& command, const WorkerSetup& setup) {
  if (!fork_server_) {
    auto started = ForkServer::start(io_,
                                     {command, bootstrap_.preload, without_worker(setup.environment),
                                      setup.order.working_directory, Milliseconds(bootstrap_.preload_timeout_ms)},
                                     {say, [this](const std::string& why) { no_fork_server_ = why; }});
    if (!started) return no_fork_server_ = "workers.preload: " + started.error().message, false;
    fork_server_ = std::move(*started);
  }
  return fork_server_->usable();
}

void AgentService::fork(const std::vector<std::string>& program, WorkerSetup setup) {
  const WorkerId id = setup.order.worker;
  ET_CHECK(!starting_.contains(id) && !workers_.contains(id), "a worker is forked once");
  const ProcessSpec spec = worker_process(setup);
  starting_[id] = std::move(setup);
  fork_server_->fork(spec, program, [this, id](Result<ForkedChild> child) { forked(id, std::move(child)); });
}

void AgentService::forked(WorkerId worker, Result<ForkedChild> child) {
  auto starting = starting_.extract(worker);
  if (starting.empty()) return;
  if (child) return begin(std::move(starting.mapped()), std::move(*child));
  if (no_fork_server_.empty() && fork_server_->usable()) no_fork_server_ = "workers.preload: " + child.error().message;
  begin(std::move(starting.mapped()), std::nullopt);
}

void AgentService::cancel_start(WorkerId worker, const std::string& reason) {
  const auto starting = starting_.extract(worker);
  if (starting.empty()) return;
  if (const std::string& key = starting.mapped().key_file; !key.empty()) ::unlink(key.c_str());
  link_.send(WorkerSpawnFailed{worker, reason});
}

void AgentService::cancel_starts() {
  while (!starting_.empty()) cancel_start(starting_.begin()->first, "the agent is stopping");
}

// A worker that takes the place of a lost one has that one's processor time.
bool AgentService::takes_time_from_others() {
  if (lost_workers_ != 0) return --lost_workers_, false;
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& entry) { return entry.second->record().is_ready(); });
}

// If no interface was chosen, the one that leads to the supervisor.
Result<std::vector<std::string>> AgentService::data_addresses() const {
  if (bootstrap_.interface.empty()) return std::vector<std::string>{link_.local_address()};
  return interface_addresses(bootstrap_.interface);
}

Result<std::vector<std::string>> AgentService::environment_for(const SpawnWorker& order,
                                                               const ReservedPort& ras) const {
  const auto addresses = data_addresses();
  if (!addresses) return addresses.error();
  const std::string name = to_string(order.worker);
  auto base = pool_ ? own_environment() : without_mpi_place(own_environment());
  auto environment = with_nccl_settings(merge_environment(std::move(base), order.environment), bootstrap_.interface,
                                        ras.number() != 0 ? ras.address() : "");
  environment = with_own_mig_instance(merge_environment(std::move(environment), pool_environment()));
  environment = with_gpus_of_slot(std::move(environment), usable_driver_gpus().size());
  if (bootstrap_.keep_warm_ms != 0 && !pool_) environment.push_back("ELASTICTRAIN_PARKS=1");
  return merge_environment(std::move(environment),
                           {"ELASTICTRAIN_SOCKET=" + directory_.path() + "/" + name + ".sock",
                            "ELASTICTRAIN_WORKER_ID=" + std::to_string(order.worker.value),
                            "ELASTICTRAIN_HOST_KEY=" + host_key_, "ELASTICTRAIN_BIND=" + join_with_commas(*addresses),
                            "ELASTICTRAIN_HEARTBEAT_MS=" + std::to_string(bootstrap_.heartbeat_ms),
                            "ELASTICTRAIN_ORPHAN_GRACE_MS=" + std::to_string(bootstrap_.orphan_grace_ms),
                            "ELASTICTRAIN_BINARY=" + self_path_,
                            "TORCHELASTIC_ERROR_FILE=" + directory_.path() + "/" + name + "-error.json"});
}

// Processes that are one worker after another: the rank of an MPI pool, and those of workers that a shrink has let go.

using namespace protocol;

namespace {

constexpr const char* kSpent = "its MPI rank is used up: the process has exited, and MPI accepts no new process";
// Between Dismiss and TERM, so that a parked process can leave MPI together with the others.
constexpr std::chrono::milliseconds kDismissTime{3'000};

}  // namespace

std::vector<std::string> AgentService::pool_environment() const {
  if (!pool_ || !pool_->local_rank) return {};
  // The supervisor treats every rank as a host of its own; for GPUs and processors the machine's slots count.
  const std::string place = std::to_string(*pool_->local_rank);
  const std::string places = std::to_string(std::max(pool_->local_ranks, *pool_->local_rank + 1));
  return {"LOCAL_RANK=" + place, "ELASTICTRAIN_SLOT=" + place, "ELASTICTRAIN_SLOTS=" + places};
}

Status AgentService::take_assignment(SpawnWorker& order) {
  if (rank_is_spent_) return Error{ErrorCode::kUnavailable, kSpent};
  const WorkerId id = order.worker;
  ET_CHECK(parked_ != nullptr, "a rank of a pool that is not spent waits for its next worker");
  reassign(std::move(parked_), id);
  return {};
}

void AgentService::reassign(std::unique_ptr<WorkerProcess> process, WorkerId id) {
  ET_CHECK(process != nullptr && !workers_.contains(id), "a process that waits becomes a worker that is new");
  process->reassign(id, hooks_for(id));
  workers_[id] = std::move(process);
}

bool AgentService::take_warm_assignment(const SpawnWorker& order) {
  auto process = warm_.take(order.slot);
  if (!process) return false;
  reassign(std::move(process), order.worker);
  warm_changed();
  return true;
}

WarmLimits AgentService::warm_limits() const {
  return {Milliseconds(bootstrap_.keep_warm_ms), host_facts().memory_bytes / 100 * bootstrap_.keep_warm_percent,
          Milliseconds(bootstrap_.grace_ms)};
}

void AgentService::on(const KeepWarm& order) {
  if (workers_.contains(order.worker) && bootstrap_.keep_warm_ms != 0) keep_.insert(order.worker);
}

void AgentService::on(const EndWarm& order) {
  warm_.end(order.worker);
}

void AgentService::warm_changed() {
  if (link_.up()) link_.send(WarmProcesses{warm_.list()});
  finish_if_empty();
}

void AgentService::parked(WorkerId id) {
  if (pool_) return park(id);
  WorkerProcess* worker = find(id);
  if (worker == nullptr) return;
  const bool stays = keep_.erase(id) != 0 && !worker->is_stopping() && !stopping_ && !leaving_;
  if (stays) return keep_warm(id);
  worker->end_in_background();
  worker->send(std::make_shared<const std::string>(encode_frame(WorkerDown(Dismiss{"it has left"}))));
}

// The process is in the list of warm ones before its worker is over, so that its slot never looks empty.
void AgentService::keep_warm(WorkerId id) {
  const auto place = workers_.find(id);
  std::unique_ptr<WorkerProcess> process = std::move(place->second);
  workers_.erase(place);
  WorkerProcess& kept = *process;
  warm_.keep(std::move(process));
  close_account(kept, {id, 0, 0, {}});
}

void AgentService::park(WorkerId id) {
  const auto place = workers_.find(id);
  if (place == workers_.end()) return;
  close_account(*place->second, {id, 0, 0, {}});
  parked_ = std::move(place->second);
  workers_.erase(place);
  parked_->park(
      {[](const WorkerToAgent&) {}, [] {}, [this](const WorkerExited&) { parked_ended(); }, [] { return true; }});
  if (stopping_ || leaving_) dismiss_parked(Milliseconds(bootstrap_.grace_ms));
}

// Sent before the worker's exit, so that no new worker is placed here.
void AgentService::spend_rank(const WorkerProcess& worker) {
  rank_is_spent_ = true;
  const bool in_order = !worker.is_elastic() || worker.has_finished() || stopping_ || leaving_;
  if (!in_order) notice(kSpent);
}

void AgentService::parked_ended() {
  parked_.reset();
  rank_is_spent_ = true;
  if (!stopping_ && !leaving_) notice(kSpent);
  finish_if_empty();
}

void AgentService::dismiss_parked(Milliseconds grace) {
  if (!parked_) return;
  parked_->send(std::make_shared<const std::string>(encode_frame(WorkerDown(Dismiss{"the run ends"}))));
  const Milliseconds patience = std::min(kDismissTime, grace / 2);
  parked_timer_.expires_after(patience);
  parked_timer_.async_wait([this, rest = grace - patience](const asio::error_code& error) {
    if (!error && parked_) parked_->stop(rest);
  });
}

}  // namespace elastictrain::launcher
