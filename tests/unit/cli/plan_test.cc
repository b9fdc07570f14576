#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <csignal>

#include "cli/commands/run/launchers.h"
#include "cli/commands/run/run.h"
#include "cli/commands/run/run_plan.h"
#include "cli/commands/run/run_settings.h"
#include "cli/commands/run/run_signals.h"
#include "cli/commands/run_flags.h"

using namespace elastictrain;
using namespace elastictrain::cli;

namespace {

class FakeLauncher : public launcher::Launcher {
 public:
  launcher::Capabilities capabilities() const override { return {}; }
  void launch(launcher::AgentSpec) override { FAIL("a dry run starts nothing"); }
  void forget(AgentId) override {}
  std::vector<std::string> command_line(const std::string& host) const override { return {"ssh", host, "agent"}; }
};

RunConfig program() {
  RunConfig config;
  config.command = {"./train", "--name", "two words"};
  return config;
}

RunPlan plan_of(const RunConfig& config) {
  auto plan = make_plan(config, {{{"NCCL_DEBUG", "INFO"}, {"HOME", "/root"}}, "/work here", "job"});
  if (!plan.ok()) FAIL(plan.error().message);
  return std::move(*plan);
}

PlanInputs in_slurm_job() {
  return {{},
          "/work here",
          "job",
          {{"SLURM_JOB_ID", "42"},
           {"SLURM_JOB_NODELIST", "n[1-3]"},
           {"SLURM_NTASKS", "6"},
           {"SLURM_TASKS_PER_NODE", "2(x3)"},
           {"SLURMD_NODENAME", "n1"}}};
}

RunPlan plan_in_slurm_job(const RunConfig& config) {
  auto plan = make_plan(config, in_slurm_job());
  if (!plan.ok()) FAIL(plan.error().message);
  return std::move(*plan);
}

bool has(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

TEST_CASE("a number of workers is fixed and a range is not") {
  const auto fixed = settings_of_sizes("4");
  REQUIRE(fixed.ok());
  CHECK(fixed->size() == 3);
  for (const Setting& setting : *fixed) CHECK(setting.text == "4");
  const auto range = settings_of_sizes("2:4");
  REQUIRE(range.ok());
  CHECK((*range)[0].text == "2");
  CHECK((*range)[1].text == "0");
  CHECK((*range)[2].text == "4");
  for (const char* wrong : {"", "x", "2:", ":4", "2:4:6", "-1"}) CHECK(!settings_of_sizes(wrong).ok());
}

TEST_CASE("--max-restarts takes a number, a class, and a window that all classes share") {
  const auto bare = settings_of_restarts("3");
  REQUIRE(bare.ok());
  REQUIRE(bare->size() == 1);
  CHECK((*bare)[0].key == "failures.max_crashes");
  CHECK((*bare)[0].text == "3");
  const auto whole = settings_of_restarts("hang:unlimited/10m");
  REQUIRE(whole.ok());
  REQUIRE(whole->size() == 2);
  CHECK((*whole)[0].key == "failures.max_hangs");
  CHECK((*whole)[0].text == "unlimited");
  CHECK((*whole)[1].key == "failures.window_s");
  CHECK((*whole)[1].text == "600");
  CHECK(settings_of_restarts("infrastructure:5")->front().key == "failures.max_infrastructure");
  for (const char* wrong : {"", "x", "crash:", "crash", "disk:3", "3/", "3/soon", "crash:3:4", "-1"}) {
    CAPTURE(wrong);
    CHECK(!settings_of_restarts(wrong).ok());
  }
  RunFlags flags;
  flags.restarts = {"crash:3/10m", "hang:1/10m"};
  const auto good = load_from_flags(flags, {"./t"}, {});
  REQUIRE(std::holds_alternative<LoadedConfig>(good));
  CHECK(std::get<LoadedConfig>(good).config.failures.max_hangs == 1);
  CHECK(std::get<LoadedConfig>(good).config.failures.window_s == 600);
  flags.restarts = {"crash:3/10m", "hang:1/20m"};
  const auto two = load_from_flags(flags, {"./t"}, {});
  REQUIRE(std::holds_alternative<ConfigError>(two));
  CHECK(std::get<ConfigError>(two).text().find("share one window") != std::string::npos);
}

TEST_CASE("failure settings reach the run, and workers keep gradients only if needed") {
  RunConfig config = program();
  config.failures.on_failure = OnFailureChoice::kShrink;
  config.failures.max_hangs = 7;
  config.failures.window_s = 60;
  config.timeouts.resume_timeout_ms = 1234;
  RunPlan plan = plan_of(config);
  CHECK(plan.settings.failures.on_failure == core::OnFailure::kShrink);
  CHECK(plan.settings.failures.max_hangs == 7);
  CHECK(plan.settings.failures.max_infrastructure == core::kUnlimited);
  CHECK(plan.settings.failures.window == Millis(60'000));
  CHECK(plan.settings.resume_timeout == Millis(1234));
  CHECK(!plan.settings.has_checkpoints);
  CHECK(!has(plan.program.environment, "ELASTICTRAIN_KEEP_GRADIENTS=0"));
  config.failures.on_failure = OnFailureChoice::kStop;
  config.checkpoint = {.directory = "/data/ck", .interval_steps = 10, .keep = 5, .timeout_ms = 700, .resume = true};
  plan = plan_of(config);
  CHECK(plan.settings.has_checkpoints);
  for (const char* variable :
       {"ELASTICTRAIN_KEEP_GRADIENTS=0", "ELASTICTRAIN_CHECKPOINT_DIR=/data/ck", "ELASTICTRAIN_CHECKPOINT_KEEP=5",
        "ELASTICTRAIN_CHECKPOINT_TIMEOUT_MS=700", "ELASTICTRAIN_RESUME=1"}) {
    CAPTURE(variable);
    CHECK(has(plan.program.environment, variable));
  }
}

TEST_CASE("the rule of the learning rate reaches the run, and its policy runner") {
  RunConfig config = program();
  config.learning_rate = {.rule = RateRuleChoice::kAdaScale, .ramp_steps = 25};
  const RunPlan plan = plan_of(config);
  CHECK(plan.settings.learning_rate.rule == core::LearningRateRule::kAdaScale);
  CHECK(plan.settings.learning_rate.ramp_steps == 25);
  CHECK(plan.settings.learning_rate.noise_scale == 0);
  CHECK(plan.policy.learning_rate == core::LearningRateRule::kAdaScale);
}

TEST_CASE("without a word about sizes there are as many workers as slots") {
  CHECK(settle_sizes({.min = 1}, 4, false).start == 4);
  CHECK(settle_sizes({.min = 1}, 4, false).max == 4);
  const Sizes range = settle_sizes({.min = 2, .max = 4}, 3, true);
  CHECK(range.start == 3);
  CHECK(range.max == 4);
  CHECK(settle_sizes({.min = 2, .max = 4}, 8, true).start == 4);
  CHECK(settle_sizes({.min = 2, .max = 4}, 1, true).start == 2);
  CHECK(settle_sizes({.min = 2, .max = 4}, 0, true).start == 2);
  CHECK(settle_sizes({.min = 1, .start = 2}, 9, true).max == 2);
}

TEST_CASE("without hosts the run is on this machine, with room for a replacement") {
  RunConfig config = program();
  config.workers = {.min = 2, .start = 2, .max = 4, .spares = 1};
  const RunPlan plan = plan_of(config);
  CHECK(plan.all_local);
  REQUIRE(plan.hosts.size() == 1);
  CHECK(plan.hosts[0].slots == 6);
  CHECK(plan.listen_addresses == std::vector<std::string>{"127.0.0.1"});
  CHECK(plan.settings.run_name == "job");
  CHECK(plan.program.working_directory == "/work here");
}

TEST_CASE("a host that is not this machine needs ssh, and slots can be given for all") {
  RunConfig config = program();
  config.hosts.list = {"hostA:2", "hostB"};
  config.hosts.slots = 3;
  const RunPlan plan = plan_of(config);
  CHECK(!plan.all_local);
  CHECK(plan.hosts[0].slots == 2);
  CHECK(plan.hosts[1].slots == 3);
  CHECK(plan.settings.max_workers == 5);
  config.launcher.kind = LauncherKind::kLocal;
  CHECK(plan_of(config).all_local);
  CHECK(is_this_host("localhost"));
  CHECK(!is_this_host("hostA"));
}

TEST_CASE("within a batch job its hosts are used, with a worker for each slot, and USR1 is a notice") {
  const RunConfig config = program();
  const RunPlan plan = plan_in_slurm_job(config);
  CHECK(plan.hosts == std::vector<launcher::Host>{{"n1", 2}, {"n2", 2}, {"n3", 2}});
  CHECK(plan.settings.start_workers == 6);
  CHECK(!plan.all_local);
  CHECK(plan.usr1_drains);
  CHECK(is_here(plan, "n1"));
  CHECK(!is_here(plan, "n2"));
  CHECK(is_allocated(plan, "n3"));
  CHECK(!is_allocated(plan, "n4"));
  const std::string text = render_dry_run(config, plan, FakeLauncher());
  CHECK(text.find("job 42 of slurm: 3 hosts with 6 slots (SLURM_TASKS_PER_NODE), agents by ") != std::string::npos);
  CHECK(!plan_of(config).usr1_drains);
}

TEST_CASE("explicit settings take precedence over the batch system's allocation") {
  RunConfig config = program();
  config.hosts.slots = 5;
  CHECK(plan_in_slurm_job(config).hosts[2] == launcher::Host{"n3", 5});
  config.hosts.list = {"n2:1", "elsewhere:1"};
  const RunPlan plan = plan_in_slurm_job(config);
  CHECK(plan.hosts.size() == 2);
  CHECK(is_allocated(plan, "n2"));
  config.hosts.list.clear();
  config.signals.usr1 = Usr1Choice::kForward;
  CHECK(!plan_in_slurm_job(config).usr1_drains);
  config.hosts.scheduler = SchedulerChoice::kNone;
  CHECK(plan_in_slurm_job(config).all_local);
  config.hosts.scheduler = SchedulerChoice::kPbs;
  CHECK(make_plan(config, in_slurm_job()).error().message.find("PBS_NODEFILE is not set") != std::string::npos);
  config.hosts.list = {"n2:1"};
  CHECK(make_plan(config, in_slurm_job()).ok());
}

TEST_CASE("with a command that gets hosts, policies may want what no host has yet, and agents come from elsewhere") {
  RunConfig config = program();
  CHECK(!plan_of(config).policy.observer.hosts_can_be_had);
  config.hosts.expand = "./more_hosts.sh";
  CHECK(plan_of(config).policy.observer.hosts_can_be_had);
  CHECK(!plan_of(config).all_local);
}

TEST_CASE("agents are started by the batch system's tool, if there is one and nothing else is asked for") {
  RunConfig config = program();
  config.launcher.kind = LauncherKind::kBatch;
  CHECK(uses_batch_tool(config, plan_in_slurm_job(config)));
  CHECK(make_plan(config, {}).error().message.find("launcher.kind = \"batch\"") != std::string::npos);
  config.launcher.kind = LauncherKind::kSsh;
  CHECK(!uses_batch_tool(config, plan_in_slurm_job(config)));
  config.launcher.kind = LauncherKind::kLocal;
  CHECK(plan_in_slurm_job(config).all_local);
}

TEST_CASE("with MPI as launcher its command starts one agent per host") {
  RunConfig config = program();
  config.launcher.kind = LauncherKind::kMpi;
  config.launcher.mpi_command = {"echo", "mpirun (Open MPI) 4.1.4"};
  config.hosts.list = {"hostA:2", "localhost:1"};
  const RunPlan plan = plan_of(config);
  CHECK(plan.hosts == std::vector<launcher::Host>{{"hostA", 2}, {"localhost", 1}});
  CHECK(plan.mpi_hosts.empty());
  CHECK(plan.settings.spares == 0);
  asio::io_context io;
  const auto launcher = make_launcher(io, config, plan, [](const launcher::LaunchEnded&) {});
  REQUIRE(launcher.ok());
  const auto words = (*launcher)->command_line("localhost");
  CHECK(words.front() == "echo");
  CHECK(has(words, "localhost:1"));
  CHECK(words.back() == "--outlive-launch");
  CHECK(has(words, "plm_rsh_agent"));
  CHECK(render_dry_run(config, plan, **launcher).find("agents by Open MPI 4.1.4") != std::string::npos);
  config.launcher.ssh_args = {"-o", "ProxyCommand=ssh -W %h:%p jump"};
  CHECK(make_plan(config, {}).error().message.find("~/.ssh/config") != std::string::npos);
  config.launcher.ssh_args.clear();
  config.launcher.mpi_command = {"/nonexistent/mpirun"};
  CHECK(make_plan(config, {}).error().message.find("/nonexistent/mpirun") != std::string::npos);
}

TEST_CASE("where MPI carries the sums every slot is a rank that is filled from the start") {
  RunConfig config = program();
  config.launcher.kind = LauncherKind::kMpi;
  config.launcher.mpi_command = {"echo", "HYDRA 4.0.2"};
  config.network.backend = BackendChoice::kMpi;
  config.workers.start = 2;
  config.workers.max = 3;
  config.workers.spares = 1;
  const RunPlan alone = plan_of(config);
  CHECK(alone.mpi_hosts == std::vector<launcher::Host>{{"localhost", 4}});
  CHECK(alone.all_local);
  config.hosts.list = {"hostA:2", "hostB:1"};
  const RunPlan plan = plan_of(config);
  CHECK(plan.hosts == std::vector<launcher::Host>{{"mpi0@hostA", 1}, {"mpi1@hostA", 1}, {"mpi2@hostB", 1}});
  CHECK(plan.settings.spares == 3);
  CHECK(plan.settings.start_workers == 2);
  CHECK(!plan.all_local);
  CHECK(has(plan.program.environment, "ELASTICTRAIN_BACKEND=mpi"));
  const std::string text = render_dry_run(config, plan, FakeLauncher());
  for (const char* part :
       {"MPI pool of 3 ranks on hostA:2,hostB:1 by MPICH 4.0.2: the pool survives the loss", "mpi2"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("a pool begins with the ranks of this machine; under Slurm the placement is unknown") {
  RunConfig config = program();
  config.launcher.kind = LauncherKind::kMpi;
  config.launcher.mpi_command = {"echo", "mpirun (Open MPI) 4.1.4"};
  config.network.backend = BackendChoice::kMpi;
  config.hosts.list = {"hostA:1", "localhost:1"};
  CHECK(plan_of(config).hosts == std::vector<launcher::Host>{{"mpi0@localhost", 1}, {"mpi1@hostA", 1}});
  config.launcher.mpi_command = {"echo", "slurm 22.05"};
  CHECK(plan_of(config).hosts == std::vector<launcher::Host>{{"mpi0", 1}, {"mpi1", 1}});
}

TEST_CASE("a run within another MPI launch is refused") {
  PlanInputs inputs;
  inputs.surroundings = {{"OMPI_COMM_WORLD_SIZE", "4"}};
  const auto plan = make_plan(program(), inputs);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message.find("do not start elastictrain under mpirun") != std::string::npos);
  CHECK(plan.error().message.find("--launcher mpi --backend mpi") != std::string::npos);
  inputs.surroundings = {{"PMI_SIZE", "1"}};
  CHECK(make_plan(program(), inputs).ok());
}

TEST_CASE("workers get what is passed on, what is set, and what their library reads") {
  RunConfig config = program();
  config.environment.pass = {"NCCL_*", "NOT_THERE"};
  config.environment.set = {"A=b c"};
  config.audit.every_steps = 10;
  config.workers.per_replica = 2;
  config.network.transport = TransportChoice::kTcp;
  const auto& environment = plan_of(config).program.environment;
  CHECK(has(environment, "NCCL_DEBUG=INFO"));
  CHECK(has(environment, "A=b c"));
  CHECK(has(environment, "ELASTICTRAIN_AUDIT_EVERY=10"));
  CHECK(has(environment, "ELASTICTRAIN_TRANSPORT=tcp"));
  CHECK(has(environment, "ELASTICTRAIN_PER_REPLICA=2"));
  CHECK(!has(plan_of(program()).program.environment, "ELASTICTRAIN_PER_REPLICA=1"));
  CHECK(!has(environment, "HOME=/root"));
}

TEST_CASE("where each worker lies on several hosts, the slots are those of groups of hosts") {
  RunConfig config = program();
  config.workers.per_replica = 4;
  config.workers.hosts_per_replica = 2;
  config.timeouts.ready_ms = 7000;
  config.hosts.list = {"a:2", "b:3", "c", "d", "e"};
  const RunPlan plan = plan_of(config);
  CHECK(plan.settings.start_workers == 3);
  CHECK(plan.hosts.size() == 5);
  CHECK(plan.worker_hosts == std::vector<launcher::Host>{{"a+b", 2}, {"c+d", 1}});
  CHECK(has(plan.program.environment, "ELASTICTRAIN_REPLICA_HOSTS=2"));
  CHECK(has(plan.program.environment, "ELASTICTRAIN_REPLICA_TIMEOUT_MS=7000"));
  config.hosts.list = {"a:2"};
  const auto refused = make_plan(config, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("workers.hosts_per_replica = 2 and 1 host:") != std::string::npos);
}

TEST_CASE("a file of variables or hosts that is not there is named") {
  RunConfig config = program();
  config.environment.file = "/no/such/file";
  CHECK(make_plan(config, {}).error().message.find("/no/such/file") != std::string::npos);
  config = program();
  config.hosts.file = "/no/such/hosts";
  CHECK(make_plan(config, {}).error().message.find("/no/such/hosts") != std::string::npos);
  config = program();
  config.network.interface = "no-such-interface";
  config.hosts.list = {"hostA"};
  CHECK(make_plan(config, {}).error().message.find("no-such-interface") != std::string::npos);
}

TEST_CASE("a policy from outside that cannot be used stops the plan") {
  RunConfig config = program();
  config.policy.library = "/no/such/policy.so";
  CHECK(make_plan(config, {}).error().message.find("policy.library = /no/such/policy.so") != std::string::npos);
  config = program();
  config.policy.program = {"no-such-policy-program", "x"};
  CHECK(make_plan(config, {}).error().message.find("\"no-such-policy-program\"") != std::string::npos);
  config.policy.program = {"sh", "-c", "true"};
  config.policy.timeout_ms = 70;
  const RunPlan plan = plan_of(config);
  CHECK(plan.policy.outside.program == config.policy.program);
  CHECK(plan.policy.outside.timeout_ms == 70);
}

TEST_CASE("the built-in trainer runs as the agent's own binary, where it needs no file of ours") {
  RunConfig config;
  config.use_trainer = true;
  config.trainer.epochs = 7;
  const RunPlan plan = plan_of(config);
  CHECK(plan.program.argv == std::vector<std::string>{"@self", "worker", "--epochs=7"});
  CHECK(plan.program.working_directory.empty());
  config.trainer.train = "data.csv";
  CHECK(plan_of(config).program.working_directory == "/work here");
}

TEST_CASE("workers are bound where that is asked for, and the trainer's on GPUs by themselves") {
  RunConfig config = program();
  const auto shown = [&](const std::string& part) {
    return render_dry_run(config, plan_of(config), FakeLauncher()).find(part) != std::string::npos;
  };
  CHECK_FALSE(shown("ELASTICTRAIN_CPU_BIND"));
  config.workers.bind = BindChoice::kCore;
  config.hosts.list = {"hostA:3"};
  CHECK(shown("ELASTICTRAIN_CPU_BIND=core\n"));
  CHECK(shown("ELASTICTRAIN_SLOTS=3\n"));
  config.workers.bind = BindChoice::kAuto;
  config.use_trainer = true;
  CHECK_FALSE(shown("ELASTICTRAIN_CPU_BIND"));
  config.trainer.device = train::DeviceChoice::kCuda;
  CHECK(shown("ELASTICTRAIN_CPU_BIND=gpu-numa\n"));
  config.workers.bind = BindChoice::kNone;
  CHECK_FALSE(shown("ELASTICTRAIN_CPU_BIND"));
}

TEST_CASE("modules are imported once on a host where that is asked for, and torch's for an unchanged script") {
  using Modules = std::vector<std::string>;
  RunConfig config = program();
  config.command = {"python3", "train.py"};
  CHECK(plan_of(config).preload.empty());
  config.environment.set = {"ELASTICTRAIN_TORCH=1"};
  CHECK(plan_of(config).preload == Modules{"torch", "elastictrain.torch"});
  config.environment.set.clear();
  config.command = {"python3", "-u", "-m", "elastictrain.torch", "ddp.py"};
  CHECK(plan_of(config).preload == Modules{"torch", "elastictrain.torch"});
  config.workers.preload = {"none"};
  CHECK(plan_of(config).preload.empty());
  config.workers.preload = {"numpy", "my.models"};
  CHECK(plan_of(config).preload == Modules{"numpy", "my.models"});
  config.workers.preload = {"numpy", "torch"};
  CHECK(plan_of(config).preload == Modules{"numpy", "torch", "elastictrain.torch"});
  config.workers.preload = {"auto"};
  config.command = {"bash", "train.sh"};
  CHECK(plan_of(config).preload.empty());
}

TEST_CASE("modules that no worker could get from a fork are refused") {
  RunConfig config = program();
  const auto refusal = [&] {
    const auto plan = plan_preload(config, false);
    return plan.ok() ? std::string() : plan.error().message;
  };
  config.workers.preload = {"torch"};
  config.command = {"bash", "train.sh"};
  CHECK(refusal() == "workers.preload: the command must be a Python interpreter with a script or -m MODULE");
  config.command = {"python3", "train.py"};
  CHECK(refusal().empty());
  CHECK(plan_preload(config, true).error().message.find("MPI starts the processes") != std::string::npos);
  config.workers.preload = {"none", "torch"};
  CHECK(refusal() == "workers.preload: auto and none stand alone");
  config.workers.preload = {"torch"};
  config.use_trainer = true;
  CHECK_FALSE(refusal().empty());
}

TEST_CASE("a dry run shows hosts, ranks, commands and environment, and starts nothing") {
  RunConfig config = program();
  config.hosts.list = {"hostA:2", "hostB:2"};
  config.workers = {.min = 3, .start = 3, .max = 3};
  const std::string text = render_dry_run(config, plan_of(config), FakeLauncher());
  for (const char* part :
       {"hostA", "ssh hostB agent", "./train --name 'two words'", "WORLD_SIZE=3", "LOCAL_WORLD_SIZE=2"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("Ctrl-C drains, a second one stops, a third kills, TERM preempts once, the others are passed on") {
  CHECK(meaning_of(SIGINT, Leaving::kNo, HangUpChoice::kLeave) == SignalMeaning::kDrain);
  CHECK(meaning_of(SIGINT, Leaving::kAtBoundary, HangUpChoice::kLeave) == SignalMeaning::kStopNow);
  CHECK(meaning_of(SIGINT, Leaving::kAtOnce, HangUpChoice::kLeave) == SignalMeaning::kKillNow);
  CHECK(meaning_of(SIGTERM, Leaving::kNo, HangUpChoice::kLeave) == SignalMeaning::kPreempt);
  CHECK(meaning_of(SIGHUP, Leaving::kNo, HangUpChoice::kLeave) == SignalMeaning::kPreempt);
  CHECK(meaning_of(SIGHUP, Leaving::kNo, HangUpChoice::kIgnore) == SignalMeaning::kNothing);
  CHECK(meaning_of(SIGTERM, Leaving::kNo, HangUpChoice::kIgnore) == SignalMeaning::kPreempt);
  CHECK(meaning_of(SIGTERM, Leaving::kAtBoundary, HangUpChoice::kLeave) == SignalMeaning::kNothing);
  CHECK(meaning_of(SIGUSR1, Leaving::kNo, HangUpChoice::kLeave) == SignalMeaning::kPass);
  CHECK(meaning_of(SIGTSTP, Leaving::kNo, HangUpChoice::kLeave) == SignalMeaning::kSuspend);
  CHECK(meaning_of(SIGCONT, Leaving::kNo, HangUpChoice::kLeave) == SignalMeaning::kPass);
}

TEST_CASE("USR1 as a notice to leave does not reach the workers") {
  SignalsConfig signals;
  CHECK(forwarded_signals(signals, false) == std::vector<int>{SIGUSR1, SIGUSR2});
  CHECK(forwarded_signals(signals, true) == std::vector<int>{SIGUSR2});
  signals.forward = {"none"};
  CHECK(forwarded_signals(signals, false).empty());
}

TEST_CASE("commands that meet wait for all hosts only where the program may be of fixed size") {
  RunConfig config = program();
  config.hosts.endpoint = "127.0.0.1:29400";
  config.workers.min = 2;
  config.workers.max = 4;
  config.timeouts.start_ms = 7000;
  const core::RunSettings plain = plan_of(config).settings;
  CHECK(plain.start_workers == 4);
  CHECK(plain.last_call == Millis(7000));
  CHECK(plain.start_timeout == Millis(config.hosts.join_timeout_ms));
  config.timeouts.start_ms = 2 * config.hosts.join_timeout_ms;
  CHECK(plan_of(config).settings.start_timeout == Millis(config.timeouts.start_ms));
  config.use_trainer = true;
  config.command.clear();
  CHECK(plan_of(config).settings.last_call == Millis(0));
  RunConfig named = program();
  CHECK(plan_of(named).settings.last_call == Millis(0));
  CHECK(plan_of(named).settings.start_timeout == Millis(named.timeouts.start_ms));
}
