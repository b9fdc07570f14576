#include "cli/commands/run/run_plan.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <sstream>

#include "cli/commands/run/endpoint.h"
#include "cli/commands/run/launchers.h"
#include "cli/commands/run/run_settings.h"
#include "cli/config/checks.h"
#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"
#include "launcher/batch/start_command.h"
#include "launcher/hostfile.h"
#include "launcher/input_file.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/host_groups.h"
#include "supervisor/policy/observer.h"
#include "supervisor/protocol/remote_place.h"

namespace elastictrain::cli {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kThisHost = "localhost";

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}

bool names_slots(std::string_view host) {
  if (host.front() == '[') return host.find("]:") != std::string_view::npos;
  return std::count(host.begin(), host.end(), ':') == 1;
}

Result<std::vector<launcher::Host>> hosts_of_list(const HostsConfig& hosts) {
  std::vector<std::string> entries = hosts.list;
  for (std::string& entry : entries) {
    const bool is_bare_ipv6 = entry.front() != '[' && std::count(entry.begin(), entry.end(), ':') > 1;
    if (hosts.slots > 0 && !names_slots(entry)) {
      entry = (is_bare_ipv6 ? "[" + entry + "]" : entry) + ":" + std::to_string(hosts.slots);
    }
  }
  return launcher::parse_host_list(join(entries, ","));
}

Result<std::string> read_file(const std::string& path, const char* what) {
  auto text = launcher::read_input_file(path);
  if (text.ok()) return text;
  return Error{text.error().code, std::string(what) + " " + text.error().message};
}

Result<std::vector<launcher::Host>> hosts_of_file(const std::string& path) {
  const auto text = read_file(path, "host file");
  if (!text.ok()) return text.error();
  return launcher::parse_hostfile(*text, path);
}

// Without any setting: this machine, with a slot for every worker and one for the new worker of a replacement.
std::vector<launcher::Host> default_hosts(const RunConfig& config) {
  const WorkersConfig& workers = config.workers;
  const std::uint64_t max = std::max({workers.min, workers.start, workers.max});
  const std::uint64_t newcomer = is_mpi_pool(config) ? 0 : 1;
  const std::uint64_t slots = config.hosts.slots > 0 ? config.hosts.slots : max + workers.spares + newcomer;
  return {{kThisHost, narrow(slots)}};
}

bool names_hosts(const HostsConfig& hosts) {
  return !hosts.list.empty() || !hosts.file.empty() || !hosts.discover.empty() || !hosts.endpoint.empty();
}

// There is none outside of batch jobs and with the local launcher. If hosts are named or leased, an allocation is
// optional, so an allocation that cannot be read is not an error.
Status find_allocation(const RunConfig& config, const PlanInputs& inputs, RunPlan& plan) {
  constexpr std::array kChosen = {launcher::Scheduler::kNone, launcher::Scheduler::kNone, launcher::Scheduler::kSlurm,
                                  launcher::Scheduler::kPbs,  launcher::Scheduler::kLsf,  launcher::Scheduler::kSge,
                                  launcher::Scheduler::kFlux};
  const std::map<std::string, std::string> variables(inputs.surroundings.begin(), inputs.surroundings.end());
  auto scheduler = kChosen[static_cast<std::size_t>(config.hosts.scheduler)];
  if (config.hosts.scheduler == SchedulerChoice::kAuto) scheduler = launcher::detect_scheduler(variables);
  if (scheduler == launcher::Scheduler::kNone || config.launcher.kind == LauncherKind::kLocal) return {};
  auto allocation = launcher::read_allocation(scheduler, launcher::real_surroundings(variables));
  if (allocation.ok()) {
    plan.allocation = std::move(*allocation);
  } else if (!names_hosts(config.hosts) && config.cluster.empty()) {
    return allocation.error();
  }
  return {};
}

std::vector<launcher::Host> allocated_hosts(const RunConfig& config, const launcher::Allocation& allocation) {
  std::vector<launcher::Host> hosts = allocation.hosts;
  for (launcher::Host& host : hosts) {
    if (config.hosts.slots > 0) host.slots = narrow(config.hosts.slots);
  }
  return hosts;
}

Result<std::vector<launcher::Host>> known_hosts(const RunConfig& config, const RunPlan& plan) {
  if (!config.cluster.empty()) return std::vector<launcher::Host>{};
  if (!config.hosts.list.empty()) return hosts_of_list(config.hosts);
  if (!config.hosts.file.empty()) return hosts_of_file(config.hosts.file);
  if (!config.hosts.discover.empty()) return std::vector<launcher::Host>{};
  if (!config.hosts.endpoint.empty()) return std::vector<launcher::Host>{this_machine(config.hosts)};
  if (plan.allocation) return allocated_hosts(config, *plan.allocation);
  return default_hosts(config);
}

bool needs_other_machines(const RunConfig& config, const RunPlan& plan) {
  if (config.launcher.kind == LauncherKind::kLocal) return false;
  const HostsConfig& hosts = config.hosts;
  if (!hosts.endpoint.empty()) {
    const auto endpoint = parse_endpoint(hosts.endpoint);
    return !endpoint.ok() || !is_loopback(*endpoint);
  }
  const bool more_may_come = !hosts.discover.empty() || !hosts.expand.empty() || !config.cluster.empty();
  if (config.launcher.kind == LauncherKind::kSsh || more_may_come) return true;
  const auto& machines = plan.mpi_hosts.empty() ? plan.hosts : plan.mpi_hosts;
  return std::any_of(machines.begin(), machines.end(),
                     [&plan](const launcher::Host& host) { return !is_here(plan, host.name); });
}

Status check_launcher(const RunConfig& config, const RunPlan& plan) {
  if (config.launcher.kind != LauncherKind::kBatch || plan.allocation) return {};
  return Error{ErrorCode::kInvalid,
               "launcher.kind = \"batch\", but this process is not in a job of a known batch system"};
}

Status choose_addresses(const NetworkConfig& network, RunPlan& plan) {
  plan.listen_addresses = network.listen;
  plan.advertise_addresses = network.advertise;
  if (plan.listen_addresses.empty() && !plan.all_local) {
    auto addresses = machine_addresses(network.interface);
    if (!addresses.ok()) return addresses.error();
    plan.listen_addresses = std::move(*addresses);
  }
  if (plan.listen_addresses.empty()) plan.listen_addresses = {"127.0.0.1"};
  if (plan.advertise_addresses.empty()) plan.advertise_addresses = plan.listen_addresses;
  return {};
}

constexpr std::uint32_t kUnnamedBatch = 32;  // of a program that names none

core::BatchSettings batch_settings(const BatchConfig& batch) {
  return {batch.per_worker == 0 ? kUnnamedBatch : narrow(batch.per_worker), batch.max_global,
          batch.at_limit == AtLimitChoice::kStop ? core::AtLimit::kStop : core::AtLimit::kSplit,
          narrow(batch.max_share)};
}

core::LearningRateSettings rate_settings(const LearningRateConfig& rate) {
  constexpr std::array kRules = {core::LearningRateRule::kNone, core::LearningRateRule::kLinear,
                                 core::LearningRateRule::kSqrt, core::LearningRateRule::kAdaScale};
  return {.rule = kRules[static_cast<std::size_t>(rate.rule)], .ramp_steps = narrow(rate.ramp_steps)};
}

std::uint32_t budget(std::uint64_t failures) {
  return failures == kNoLimit ? core::kUnlimited : narrow(failures);
}

core::FailureSettings failure_settings(const FailuresConfig& failures) {
  constexpr std::array kChoices = {core::OnFailure::kReplace, core::OnFailure::kShrink, core::OnFailure::kStop};
  core::FailureSettings settings;
  settings.on_failure = kChoices[static_cast<std::size_t>(failures.on_failure)];
  settings.max_crashes = budget(failures.max_crashes);
  settings.max_hangs = budget(failures.max_hangs);
  settings.max_infrastructure = budget(failures.max_infrastructure);
  settings.max_fruitless = budget(failures.max_fruitless);
  settings.plain_restarts = budget(failures.plain_restarts);
  settings.window = Millis(failures.window_s * 1000);
  settings.wait_for_min = Millis(failures.wait_for_min_s * 1000);
  settings.halt_timeout = Millis(failures.halt_timeout_ms);
  settings.reconnect_grace = Millis(failures.reconnect_grace_ms);
  settings.cool_down = Millis(failures.cool_down_ms);
  settings.cool_down_max = Millis(failures.cool_down_max_ms);
  settings.detect_hangs = failures.detect_hangs;
  settings.hang_steps = narrow(failures.hang_steps);
  settings.hang_min = Millis(failures.hang_min_ms);
  settings.hang_max = Millis(failures.hang_max_ms);
  settings.phase_timeout = Millis(failures.phase_timeout_ms);
  settings.stacks_timeout = Millis(failures.stacks_timeout_ms);
  return settings;
}

core::RunSettings make_settings(const RunConfig& config, const Sizes& sizes, const std::string& name) {
  core::RunSettings settings;
  settings.run_name = name;
  settings.min_workers = sizes.min;
  settings.start_workers = sizes.start;
  settings.max_workers = sizes.max;
  settings.spares = narrow(config.workers.spares);
  settings.batch = batch_settings(config.batch);
  settings.batch_of_program = config.batch.per_worker == 0;
  settings.batch_of_user = narrow(config.batch.per_worker);
  settings.policy_sizes = policy::decides_size(policy_settings(config.policy));
  settings.learning_rate = rate_settings(config.learning_rate);
  settings.topology = config.network.topology;
  settings.synchronization = config.synchronization.strategy;
  settings.averaging_weight = config.synchronization.weight;
  settings.failures = failure_settings(config.failures);
  settings.has_checkpoints = !config.checkpoint.directory.empty();
  settings.keeps_first = is_unchanged_script(config);
  settings.start_timeout = Millis(config.timeouts.start_ms);
  settings.ready_timeout = Millis(config.timeouts.ready_ms);
  settings.prepare_timeout = Millis(config.timeouts.prepare_ms);
  settings.grace = Millis(config.timeouts.grace_ms);
  settings.suspect = Millis(config.timeouts.suspect_ms);
  settings.dead = Millis(config.timeouts.dead_ms);
  settings.resume_timeout = Millis(config.timeouts.resume_timeout_ms);
  return settings;
}

// Those of the other hosts look for the run as long as the run waits for enough of them.
void await_commands(const RunConfig& config, core::RunSettings& settings) {
  settings.start_timeout = Millis(std::max(config.hosts.join_timeout_ms, config.timeouts.start_ms));
  const bool is_elastic = config.use_trainer || is_unchanged_script(config);
  if (!is_elastic) settings.last_call = Millis(config.timeouts.start_ms);
}

// The agent replaces "@self" by its own path, which differs between hosts.
std::vector<std::string> program_text(const RunConfig& config) {
  if (!config.use_trainer) return config.command;
  std::vector<std::string> words = {"@self", "worker"};
  const std::vector<std::string> options = train::to_arguments(config.trainer);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

// The agent resolves this name, since it knows the machine.
std::string binding(const RunConfig& config) {
  const bool on_gpus = config.use_trainer && config.trainer.device != train::DeviceChoice::kCpu;
  switch (config.workers.bind) {
    case BindChoice::kNone:
      return "none";
    case BindChoice::kCore:
      return "core";
    case BindChoice::kNuma:
      return "numa";
    case BindChoice::kAuto:
      return on_gpus ? "gpu-numa" : "none";
  }
  return "none";
}

std::uint64_t count_slots(const std::vector<launcher::Host>& hosts) {
  std::uint64_t slots = 0;
  for (const launcher::Host& host : hosts) slots += host.slots;
  return slots;
}

Status add_file(const std::string& path, std::vector<std::string>& environment) {
  const auto text = read_file(path, "environment.file");
  if (!text.ok()) return text.error();
  std::size_t number = 0;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string_view content = trim(line);
    if (content.empty() || content.front() == '#') continue;
    const Status good = check_assignment(content);
    if (!good.ok())
      return Error{ErrorCode::kInvalid, path + ":" + std::to_string(number) + ": " + good.error().message};
    environment.emplace_back(content);
  }
  return {};
}

// A trainer that reads no file can run on hosts that do not have our directory.
std::string working_directory(const RunConfig& config, const std::string& current) {
  if (!config.working_directory.empty()) return config.working_directory;
  const bool reads_files = !config.trainer.train.empty() || !config.trainer.test.empty();
  return config.use_trainer && !reads_files ? "" : current;
}

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

void add_library_settings(const RunConfig& config, std::vector<std::string>& environment) {
  const auto add = [&environment](const char* name, const std::string& value) {
    environment.push_back(std::string(name) + "=" + value);
  };
  if (config.audit.every_steps > 0) add("ELASTICTRAIN_AUDIT_EVERY", std::to_string(config.audit.every_steps));
  if (config.workers.per_replica > 1) add("ELASTICTRAIN_PER_REPLICA", std::to_string(config.workers.per_replica));
  if (config.workers.hosts_per_replica > 1) {
    add("ELASTICTRAIN_REPLICA_HOSTS", std::to_string(config.workers.hosts_per_replica));
    add("ELASTICTRAIN_REPLICA_TIMEOUT_MS", std::to_string(config.timeouts.ready_ms));
  }
  if (config.network.transport == TransportChoice::kTcp) add("ELASTICTRAIN_TRANSPORT", "tcp");
  add("ELASTICTRAIN_ENCRYPTION", std::string(protocol::name_of(config.network.encryption)));
  if (config.network.backend != BackendChoice::kAuto) {
    add("ELASTICTRAIN_BACKEND", render_value(config, *find_key("network.backend")));
  }
  if (!config.log.step_directory.empty()) add("ELASTICTRAIN_STEP_LOG", absolute(config.log.step_directory));
  if (!config.checkpoint.directory.empty()) {
    const CheckpointConfig& checkpoint = config.checkpoint;
    const bool is_remote = protocol::is_remote_place(checkpoint.directory);
    add("ELASTICTRAIN_CHECKPOINT_DIR", is_remote ? checkpoint.directory : absolute(checkpoint.directory));
    if (is_remote) {
      const bool is_path = checkpoint.client.find('/') != std::string::npos;
      add("ELASTICTRAIN_CHECKPOINT_CLIENT", is_path ? absolute(checkpoint.client) : checkpoint.client);
      add("ELASTICTRAIN_CHECKPOINT_CLIENT_TIMEOUT_MS", std::to_string(checkpoint.client_timeout_ms));
    }
    add("ELASTICTRAIN_CHECKPOINT_EVERY", std::to_string(config.checkpoint.interval_steps));
    add("ELASTICTRAIN_CHECKPOINT_KEEP", std::to_string(config.checkpoint.keep));
    add("ELASTICTRAIN_CHECKPOINT_TIMEOUT_MS", std::to_string(config.checkpoint.timeout_ms));
    if (config.checkpoint.resume) add("ELASTICTRAIN_RESUME", "1");
  }
  add("ELASTICTRAIN_ROUND_MS", std::to_string(config.synchronization.round_ms));
  // Gradients are kept for the survivors of a failure. Such a run stops instead.
  if (config.failures.on_failure == OnFailureChoice::kStop) add("ELASTICTRAIN_KEEP_GRADIENTS", "0");
}

}  // namespace

bool is_this_host(const std::string& name) {
  if (name == kThisHost || name == "127.0.0.1" || name == "::1") return true;
  std::array<char, 256> own{};
  if (gethostname(own.data(), own.size() - 1) == 0) {
    const std::string full = own.data();
    if (name == full || name == full.substr(0, full.find('.'))) return true;
  }
  const std::vector<std::string> addresses = all_addresses();
  return std::find(addresses.begin(), addresses.end(), name) != addresses.end();
}

bool is_here(const RunPlan& plan, const std::string& name) {
  return is_this_host(name) || (plan.allocation && !name.empty() && plan.allocation->this_host == name);
}

bool is_allocated(const RunPlan& plan, const std::string& name) {
  if (!plan.allocation) return false;
  const auto& hosts = plan.allocation->hosts;
  return std::any_of(hosts.begin(), hosts.end(), [&name](const launcher::Host& host) { return host.name == name; });
}

bool uses_batch_tool(const RunConfig& config, const RunPlan& plan) {
  if (!plan.allocation) return false;
  if (config.launcher.kind == LauncherKind::kBatch) return true;
  const std::string tool = launcher::start_tool_of(plan.allocation->scheduler);
  return config.launcher.kind == LauncherKind::kAuto && !tool.empty() && launcher::is_in_path(tool);
}

// As the hosts of workers, which may take several each.
Result<std::vector<launcher::Host>> hosts_of_workers(const RunConfig& config, const RunPlan& plan) {
  const std::uint64_t size = config.workers.hosts_per_replica;
  if (size == 1) return plan.hosts;
  auto groups = HostGroups(narrow(size)).offer(plan.hosts, {}).groups;
  const bool all_known = config.hosts.discover.empty() && config.hosts.endpoint.empty();
  if (groups.empty() && all_known) {
    return Error{ErrorCode::kInvalid, "workers.hosts_per_replica = " + std::to_string(size) + " and " +
                                          core::counted(plan.hosts.size(), "host") +
                                          ": a worker needs as many hosts; name them with -H hostA,hostB"};
  }
  return groups;
}

std::string describe_allocation(const RunConfig& config, const RunPlan& plan) {
  const launcher::Allocation& job = *plan.allocation;
  std::string tool = uses_batch_tool(config, plan) ? launcher::start_tool_of(job.scheduler) : "ssh";
  if (plan.mpi_tool) tool = plan.mpi_tool->command.front();
  return "job " + job.job_id + " of " + std::string(launcher::name_of(job.scheduler)) + ": " +
         core::counted(job.hosts.size(), "host") + " with " + core::counted(count_slots(job.hosts), "slot") + " (" +
         job.slots_from + "), agents by " + tool;
}

Sizes settle_sizes(const WorkersConfig& workers, std::uint64_t slots, bool sizes_given) {
  std::uint64_t max = std::max({workers.max, workers.min, workers.start});
  if (!sizes_given && slots > 0) max = std::max(slots, workers.min);
  std::uint64_t start = workers.start;
  if (start == 0) start = slots == 0 ? workers.min : std::clamp(slots, workers.min, max);
  return {narrow(workers.min), narrow(start), narrow(max)};
}

launcher::SshOptions ssh_options(const LauncherConfig& config) {
  launcher::SshOptions options;
  options.program = config.ssh_program;
  options.user = config.ssh_user;
  options.port = static_cast<std::uint16_t>(config.ssh_port);
  options.identity_file = config.ssh_identity;
  options.extra_arguments = config.ssh_args;
  options.connect_timeout_ms = config.connect_timeout_ms;
  options.parallelism = narrow(config.parallelism);
  options.copy_binary = config.copy_binary;
  return options;
}

launcher::CommandLaunchOptions command_options(const LauncherConfig& config) {
  launcher::CommandLaunchOptions options;
  options.command = config.command;
  options.parallelism = narrow(config.parallelism);
  options.copy_binary = config.copy_binary;
  return options;
}

bool is_passed(const EnvironmentConfig& environment, const std::string& name) {
  return std::any_of(environment.pass.begin(), environment.pass.end(),
                     [&name](const std::string& pattern) { return fits_pattern(name, pattern); });
}

Result<std::vector<std::string>> user_environment(const RunConfig& config, const Variables& ours) {
  std::vector<std::string> environment;
  for (const std::string& pattern : config.environment.pass) {
    for (const auto& [name, value] : ours) {
      if (fits_pattern(name, pattern)) environment.push_back(name + "=" + value);
    }
  }
  if (!config.environment.file.empty()) {
    if (const Status added = add_file(config.environment.file, environment); !added.ok()) return added.error();
  }
  environment.insert(environment.end(), config.environment.set.begin(), config.environment.set.end());
  add_library_settings(config, environment);
  return environment;
}

Status names_hosts_in_file(const RunConfig& config, const RunPlan& plan) {
  if (config.hosts.file.empty() || !config.cluster.empty() || !plan.hosts.empty()) return {};
  return Error{ErrorCode::kInvalid,
               "host file " + config.hosts.file + " names no host; write one on each line, e.g. hostA slots=4"};
}

Result<std::string> current_directory() {
  std::error_code removed;
  std::string directory = std::filesystem::current_path(removed).string();
  if (!removed) return directory;
  return Error{ErrorCode::kUnavailable,
               "the directory in which this command was started has been removed; change to one that exists, or, if it "
               "has been made anew: cd \"$PWD\""};
}

Result<RunPlan> make_plan(const RunConfig& config, const PlanInputs& inputs) {
  if (const Status outside = check_outside_mpi(inputs.surroundings); !outside.ok()) return outside.error();
  RunPlan plan;
  if (const Status found = find_allocation(config, inputs, plan); !found.ok()) return found.error();
  if (const Status good = check_launcher(config, plan); !good.ok()) return good.error();
  plan.usr1_drains = config.signals.usr1 == Usr1Choice::kDrain ||
                     (config.signals.usr1 == Usr1Choice::kAuto && plan.allocation.has_value());
  auto hosts = known_hosts(config, plan);
  if (!hosts.ok()) return hosts.error();
  plan.hosts = std::move(*hosts);
  if (const Status settled = settle_mpi(config, plan); !settled.ok()) return settled.error();
  plan.all_local = !needs_other_machines(config, plan);
  const WorkersConfig& workers = config.workers;
  const bool hosts_are_default =
      !config.cluster.empty() || (!names_hosts(config.hosts) && !plan.allocation && config.hosts.slots == 0);
  const bool sizes_given = hosts_are_default || workers.max != 0 || workers.start != 0;
  auto worker_hosts = hosts_of_workers(config, plan);
  if (!worker_hosts.ok()) return worker_hosts.error();
  plan.worker_hosts = std::move(*worker_hosts);
  Sizes sizes = settle_sizes(workers, count_slots(plan.worker_hosts), sizes_given);
  const bool meets = !config.hosts.endpoint.empty();
  if (meets && workers.start == 0) sizes.start = sizes.max;
  plan.settings = make_settings(config, sizes, config.name.empty() ? inputs.default_name : config.name);
  if (meets) await_commands(config, plan.settings);
  // MPI starts all of its processes at once: those that do not train wait as spares.
  if (!plan.mpi_hosts.empty()) plan.settings.spares = narrow(plan.hosts.size());
  plan.settings.keeps_warm = config.hosts.keep_warm_s != 0 && plan.mpi_hosts.empty();
  auto preload = plan_preload(config, !plan.mpi_hosts.empty());
  if (!preload.ok()) return preload.error();
  plan.preload = std::move(*preload);
  plan.policy = policy_settings(config.policy);
  for (const policy::Outside& outside : {plan.policy.outside, plan.policy.utility}) {
    if (const Status there = policy::check_outside(outside, plan.policy.seed); !there.ok()) return there.error();
  }
  plan.policy.convergence = convergence_settings(config.convergence);
  plan.policy.observer = observer_settings(config, plan.settings);
  plan.policy.learning_rate = plan.settings.learning_rate.rule;
  plan.program.argv = program_text(config);
  plan.program.working_directory = working_directory(config, inputs.current_directory);
  auto environment = user_environment(config, inputs.environment);
  if (!environment.ok()) return environment.error();
  plan.program.environment = std::move(*environment);
  if (plan.usr1_drains) plan.program.environment.emplace_back("ELASTICTRAIN_USR1=notice");
  if (const std::string bind = binding(config); bind != "none") {
    plan.program.environment.push_back("ELASTICTRAIN_CPU_BIND=" + bind);
  }
  if (const Status chosen = choose_addresses(config.network, plan); !chosen.ok()) return chosen.error();
  return plan;
}

}  // namespace elastictrain::cli
