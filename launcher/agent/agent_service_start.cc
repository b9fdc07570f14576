// How a worker's process comes to be: in a seat that is there, forked from the host's fork server, or started.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "launcher/agent/agent_service.h"
#include "launcher/agent/binding.h"
#include "launcher/agent/host_facts.h"
#include "launcher/agent/mig_instances.h"
#include "launcher/nccl_settings.h"
#include "launcher/process/missing_program.h"
#include "launcher/process/priority.h"
#include "launcher/python_command.h"
#include "launcher/text.h"

namespace elastictrain::launcher {

using namespace protocol;

namespace {

// What the fork server must not have: with them it would be a worker.
constexpr std::string_view kOfOneWorker[] = {"ELASTICTRAIN_SOCKET=", "ELASTICTRAIN_WORKER_ID="};

std::optional<MissingProgram> missing_program(const SpawnWorker& order) {
  if (order.argv.empty() || order.argv[0] == "@self") return std::nullopt;
  return find_missing_program(order.argv[0], merge_environment(own_environment(), order.environment),
                              order.working_directory);
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
  if (rank_is_spent_ || parked_) {
    const Status seated = take_seat(order);
    return seated ? link_.send(WorkerSpawned{id, workers_.at(id)->pid()}) : start_failed(order, seated.error());
  }
  if (order.warm && take_warm_seat(order)) return link_.send(WorkerSpawned{id, workers_.at(id)->pid()});
  warm_.end_in(order.slot);
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
  return setup;
}

void AgentService::begin(WorkerSetup setup, std::optional<ForkedChild> child) {
  const SpawnWorker order = setup.order;
  setup.starts_in_background = takes_time_from_others() && may_end_background();
  auto worker = Worker::start(io_, std::move(setup), hooks_for(order.worker), std::move(child));
  if (!worker) return start_failed(order, worker.error());
  link_.send(WorkerSpawned{order.worker, (*worker)->pid()});
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
  if (!starting.empty()) link_.send(WorkerSpawnFailed{worker, reason});
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

}  // namespace elastictrain::launcher
