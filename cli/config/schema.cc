#include "cli/config/schema.h"

#include <cctype>

#include "cli/config/checks.h"
#include "heuristics/registry/registry.h"
#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::cli {
namespace {

constexpr std::uint64_t kMaxWorkers = 100'000;
constexpr std::uint64_t kDayMs = 86'400'000;
constexpr std::uint64_t kMaxBatch = limits::kMaxBatch;
constexpr std::uint64_t kMaxSteps = 1ULL << 40;
constexpr std::uint64_t kMaxFailures = 1'000'000;

// --- Access to a member of RunConfig, of the top level or of a section
// -------------------------------------------------

template <auto Member>
auto& top(RunConfig& config) {
  return config.*Member;
}

template <auto Section, auto Member>
auto& in(RunConfig& config) {
  return (config.*Section).*Member;
}

template <auto Section, auto Member>
ChoiceField choice(std::span<const std::string_view> names) {
  using Enum = std::remove_reference_t<decltype(in<Section, Member>(std::declval<RunConfig&>()))>;
  return {names, [](RunConfig& config, std::size_t index) { in<Section, Member>(config) = static_cast<Enum>(index); },
          [](const RunConfig& config) { return static_cast<std::size_t>((config.*Section).*Member); }};
}

// Names stand in the order of the enumerators.
constexpr std::string_view kLauncherNames[] = {"auto", "local", "ssh", "batch", "mpi", "command"};
constexpr std::string_view kAtLimitNames[] = {"stop", "split"};
constexpr std::string_view kBindNames[] = {"none", "core", "numa", "auto"};
constexpr std::string_view kRuleNames[] = {"none", "linear", "sqrt", "adascale"};
constexpr std::string_view kTransportNames[] = {"auto", "tcp"};
constexpr std::string_view kBackendNames[] = {"auto", "cpu", "mpi", "nccl"};
constexpr std::string_view kEndpointRoleNames[] = {"auto", "hold", "join"};
constexpr std::string_view kSchedulerNames[] = {"auto", "none", "slurm", "pbs", "lsf", "sge", "flux"};
constexpr std::string_view kUsr1Names[] = {"auto", "forward", "drain"};
constexpr std::string_view kHangUpNames[] = {"leave", "ignore"};
constexpr std::string_view kOnFailureNames[] = {"replace", "shrink", "stop"};

using C = RunConfig;

// --- The table
// ---------------------------------------------------------------------------------------------------------

void add_job_keys(std::vector<KeySpec>& keys) {
  keys.insert(
      keys.end(),
      {
          {"name", "", "name of the run, for status and the other client commands", "--name",
           TextField{top<&C::name>, check_name}},
          {"command", "", "program to run, with its arguments", "", ListField{top<&C::command>, nullptr, false, true}},
          {"working_directory", "",
           "directory in which workers start; default: the directory in which the run was started", "--chdir",
           TextField{top<&C::working_directory>}},
          {"cluster", "",
           "cluster that leases the run its slots, by its name or the path of its socket; the size follows the lease "
           "up to workers.max",
           "--cluster", TextField{top<&C::cluster>}},
          {"job.priority", "", "in a cluster: jobs of a higher one are served first; a whole number", "--priority",
           NumberField{in<&C::job, &JobConfig::priority>, -1000, 1000}},
          {"job.deadline_s", "seconds",
           "in a cluster: the job is to end within this time after it was submitted; it is given slots for it, if its "
           "length is known; 0: no deadline",
           "--job-deadline", IntegerField{in<&C::job, &JobConfig::deadline_s>, 0, 3650 * 86'400ULL}, true},
          {"job.most_slots", "slots", "in a cluster: maximum number of slots; 0: workers.max", "--most-slots",
           IntegerField{in<&C::job, &JobConfig::most_slots>, 0, 100'000}},
          {"job.one_host", "", "in a cluster: all slots must be on one host", "--one-host",
           BoolField{in<&C::job, &JobConfig::one_host>}},
          {"job.most_hosts", "hosts", "in a cluster: maximum number of hosts; 0: any number", "--most-hosts",
           IntegerField{in<&C::job, &JobConfig::most_hosts>, 0, 16'384}},
          {"job.hosts", "", "in a cluster: the only hosts that may be used; default: any", "--job-hosts",
           ListField{in<&C::job, &JobConfig::hosts>, check_word}},
          {"workers.min", "workers", "minimum number of workers; with fewer, training waits", "--min-np",
           IntegerField{in<&C::workers, &WorkersConfig::min>, 1, kMaxWorkers}},
          {"workers.start", "workers", "initial number of workers; 0: one for each slot, up to workers.max", "--start",
           IntegerField{in<&C::workers, &WorkersConfig::start>, 0, kMaxWorkers}},
          {"workers.max", "workers", "maximum number of workers; 0: the larger of workers.min and workers.start",
           "--max-np", IntegerField{in<&C::workers, &WorkersConfig::max>, 0, kMaxWorkers}},
          {"workers.spares", "workers", "number of started, ready workers that wait to join", "--spares",
           IntegerField{in<&C::workers, &WorkersConfig::spares>, 0, kMaxWorkers}},
          {"workers.per_replica", "processes",
           "processes of each worker, which hold one copy of the model together, as FSDP divides it; a slot is for all "
           "of them; passed to the program as ELASTICTRAIN_PER_REPLICA",
           "--per-replica", IntegerField{in<&C::workers, &WorkersConfig::per_replica>, 1, 1024}},
          {"workers.hosts_per_replica", "hosts",
           "hosts over which the processes of each worker are spread evenly; a slot of a worker is one on each of them",
           "--hosts-per-replica", IntegerField{in<&C::workers, &WorkersConfig::hosts_per_replica>, 1, 64}},
          {"workers.bind", "",
           "processors of a worker: none: all that its agent may use; core: an even share of these; numa: one NUMA "
           "node, that of its GPU where it has one; auto: numa for the built-in trainer on GPUs, else none",
           "--bind", choice<&C::workers, &WorkersConfig::bind>(kBindNames)},
          {"workers.preload", "",
           "Python modules that one process of each host imports, to be forked for its workers, so that a new one "
           "starts at once; auto: torch for an unchanged script (--torch), otherwise none; none: each worker imports "
           "by "
           "itself",
           "--preload", ListField{in<&C::workers, &WorkersConfig::preload>, check_module}},
          {"workers.preload_timeout_ms", "milliseconds",
           "maximum time to import workers.preload, and to fork a worker; after it workers start by themselves", "",
           IntegerField{in<&C::workers, &WorkersConfig::preload_timeout_ms>, 100, kDayMs}},
      });
}

void add_host_keys(std::vector<KeySpec>& keys) {
  using H = HostsConfig;
  keys.insert(
      keys.end(),
      {
          {"hosts.list", "", "hosts with their slots, for example hostA:2,hostB:2", "-H,--hosts",
           ListField{in<&C::hosts, &H::list>, check_host}},
          {"hosts.file", "", "file with one host per line: 'host slots=4' or 'host:4'", "-f,--hostfile",
           TextField{in<&C::hosts, &H::file>}},
          {"hosts.discover", "",
           "program that prints one host:slots per line; it runs repeatedly, so hosts can appear and disappear",
           "--discover", TextField{in<&C::hosts, &H::discover>}},
          {"hosts.discover_interval_ms", "milliseconds", "time between two runs of hosts.discover", "",
           IntegerField{in<&C::hosts, &H::discover_interval_ms>, 100, kDayMs}},
          {"hosts.slots", "slots", "slots of a host that states none; 0: those of the batch job, else 1",
           "--nproc-per-node,--ppn", IntegerField{in<&C::hosts, &H::slots>, 0, 1024}},
          {"hosts.expand", "", "command that requests more hosts when slots are missing, and prints them", "",
           TextField{in<&C::hosts, &H::expand>}},
          {"hosts.expand_timeout_ms", "milliseconds", "maximum time for hosts.expand to get hosts", "",
           IntegerField{in<&C::hosts, &H::expand_timeout_ms>, 100, 10 * kDayMs}},
          {"hosts.shrink", "", "command that releases hosts of hosts.expand", "", TextField{in<&C::hosts, &H::shrink>}},
          {"hosts.shrink_after_ms", "milliseconds",
           "time for which a host of hosts.expand must be unused before it is released", "",
           IntegerField{in<&C::hosts, &H::shrink_after_ms>, 0, 10 * kDayMs}},
          {"hosts.keep_warm_s", "seconds",
           "time for which the process of a worker that a shrink has let go stays in memory; the next growth takes it "
           "first, and it joins at once; 0: it ends",
           "--keep-warm", IntegerField{in<&C::hosts, &H::keep_warm_s>, 0, 10 * kDayMs / 1000}},
          {"hosts.keep_warm_memory_percent", "percent",
           "of a host's memory that all processes that are kept warm there may hold together; beyond it the oldest "
           "ends",
           "", IntegerField{in<&C::hosts, &H::keep_warm_memory_percent>, 0, 100}},
          {"hosts.scheduler", "",
           "batch system whose allocation is used if no hosts are given; auto: the one that is detected", "--scheduler",
           choice<&C::hosts, &H::scheduler>(kSchedulerNames)},
          {"hosts.endpoint", "",
           "HOST:PORT at which this command, started on every host, meets the others; one of them trains, the others "
           "offer it their hosts",
           "--endpoint", TextField{in<&C::hosts, &H::endpoint>, check_endpoint}},
          {"hosts.endpoint_role", "",
           "hold: this command runs the training; join: it offers its host; auto: it holds the endpoint if that is on "
           "this machine and free",
           "--endpoint-role", choice<&C::hosts, &H::endpoint_role>(kEndpointRoleNames)},
          {"hosts.secret_file", "",
           "private file with the secret that all commands of an endpoint share; default: join-secret in the state "
           "directory, or the variable ELASTICTRAIN_SECRET",
           "", TextField{in<&C::hosts, &H::secret_file>}},
          {"hosts.join_timeout_ms", "milliseconds",
           "maximum time for which a command that offers its host looks for the run, at the start and after it was "
           "lost; the run waits as long for hosts of workers.min",
           "", IntegerField{in<&C::hosts, &H::join_timeout_ms>, 100, kDayMs}},
      });
}

void add_launcher_keys(std::vector<KeySpec>& keys) {
  using L = LauncherConfig;
  keys.insert(
      keys.end(),
      {
          {"launcher.kind", "",
           "how agents start on hosts; batch: the tool of the batch system; mpi: mpirun; command: launcher.command; "
           "auto: batch in a batch job, else ssh",
           "--launcher", choice<&C::launcher, &L::kind>(kLauncherNames)},
          {"launcher.ssh_user", "", "user name for ssh; default: ssh's own choice", "--ssh-user",
           TextField{in<&C::launcher, &L::ssh_user>, check_word}},
          {"launcher.ssh_port", "", "port for ssh; 0: ssh's own choice", "--ssh-port",
           IntegerField{in<&C::launcher, &L::ssh_port>, 0, 65535}},
          {"launcher.ssh_identity", "", "private key file for ssh", "--ssh-identity",
           TextField{in<&C::launcher, &L::ssh_identity>}},
          {"launcher.ssh_args", "", "additional arguments for ssh", "--ssh-args",
           ListField{in<&C::launcher, &L::ssh_args>, nullptr, false, true}},
          {"launcher.ssh_program", "", "ssh program", "--ssh-program",
           TextField{in<&C::launcher, &L::ssh_program>, check_set}},
          {"launcher.connect_timeout_ms", "milliseconds",
           "maximum time for ssh to connect, and for an agent to connect back", "",
           IntegerField{in<&C::launcher, &L::connect_timeout_ms>, 100, kDayMs}},
          {"launcher.parallelism", "hosts", "maximum number of hosts that start at the same time", "",
           IntegerField{in<&C::launcher, &L::parallelism>, 1, 4096}},
          {"launcher.copy_binary", "", "copy this binary to hosts that lack it or have another version", "",
           BoolField{in<&C::launcher, &L::copy_binary>}},
          {"launcher.mpi_command", "", "command that starts MPI processes: mpirun, mpiexec.hydra, srun --mpi=pmi2",
           "--mpi-command", ListField{in<&C::launcher, &L::mpi_command>, nullptr, false, true}},
          {"launcher.command", "",
           "command that runs a program on {host}, such as kubectl exec -i {host} --; it passes words and standard "
           "input on as they are",
           "--launcher-command", ListField{in<&C::launcher, &L::command>, nullptr, false, true}},
      });
}

void add_training_keys(std::vector<KeySpec>& keys) {
  keys.insert(
      keys.end(),
      {
          {"batch.per_worker", "samples",
           "samples of one worker in one batch: of a step, unless the program accumulates gradients over several; 0: "
           "as "
           "the program says, 32 if it does not",
           "--batch", IntegerField{in<&C::batch, &BatchConfig::per_worker>, 0, kMaxBatch}},
          {"batch.max_global", "samples", "maximum number of samples of all workers in one step; 0: no limit", "",
           IntegerField{in<&C::batch, &BatchConfig::max_global>, 0, kMaxBatch}},
          {"batch.max_share", "samples",
           "maximum number of samples of one worker in one step when shares are uneven; 0: no limit", "",
           IntegerField{in<&C::batch, &BatchConfig::max_share>, 0, kMaxBatch}},
          {"batch.at_limit", "",
           "at batch.max_global: stop: the job does not grow; split: more workers share the same batch", "",
           choice<&C::batch, &BatchConfig::at_limit>(kAtLimitNames)},
          {"learning_rate.rule", "", "how the learning rate follows the global batch", "",
           choice<&C::learning_rate, &LearningRateConfig::rule>(kRuleNames)},
          {"learning_rate.ramp_steps", "steps", "steps over which the learning rate moves after a change", "",
           IntegerField{in<&C::learning_rate, &LearningRateConfig::ramp_steps>, 0, 1'000'000}},
          {"synchronization.strategy", "",
           "what workers exchange in a step: s-sgd: gradients; averaging: models, with all workers; pair-averaging: "
           "models, with one other worker",
           "", choice<&C::synchronization, &SynchronizationConfig::strategy>(protocol::kSynchronizationNames)},
          {"synchronization.weight", "",
           "for averaging: weight of the average of all models against a worker's own model", "",
           NumberField{in<&C::synchronization, &SynchronizationConfig::weight>, 0, 1}},
          {"synchronization.round_ms", "milliseconds",
           "for pair-averaging: minimum time for which no worker waits for another; then all meet, and changes take "
           "effect; 0: they meet in every step",
           "", IntegerField{in<&C::synchronization, &SynchronizationConfig::round_ms>, 0, 60'000}},
      });
}

void add_checkpoint_keys(std::vector<KeySpec>& keys) {
  keys.insert(
      keys.end(),
      {
          {"checkpoint.directory", "",
           "directory of checkpoints, of one run at a time, or a place in an object store, e.g. "
           "s3://bucket/runs/{run}; "
           "{run} in it is the run's name; in a cluster each job has a subdirectory of its name where {run} is "
           "missing; "
           "passed to the program as ELASTICTRAIN_CHECKPOINT_DIR",
           "", TextField{in<&C::checkpoint, &CheckpointConfig::directory>}},
          {"checkpoint.interval_steps", "steps",
           "steps between two checkpoints; passed to the program as ELASTICTRAIN_CHECKPOINT_EVERY; 0: no checkpoints",
           "", IntegerField{in<&C::checkpoint, &CheckpointConfig::interval_steps>, 0, kMaxSteps}},
          {"checkpoint.keep", "checkpoints", "number of newest valid checkpoints to keep; older ones are removed", "",
           IntegerField{in<&C::checkpoint, &CheckpointConfig::keep>, 1, 10'000}},
          {"checkpoint.timeout_ms", "milliseconds", "maximum time to write the last checkpoint when training ends", "",
           IntegerField{in<&C::checkpoint, &CheckpointConfig::timeout_ms>, 100, 86'400'000}},
          {"checkpoint.resume", "", "start from the newest valid checkpoint in checkpoint.directory, if there is one",
           "", BoolField{in<&C::checkpoint, &CheckpointConfig::resume>}},
          {"checkpoint.adopt", "",
           "take checkpoint.directory from another run that has not finished and does not train any more", "",
           BoolField{in<&C::checkpoint, &CheckpointConfig::adopt>}},
          {"checkpoint.client", "",
           "what reaches checkpoint.directory in an object store, on this machine and on each host: \"aws\" for "
           "s3://…, "
           "\"rclone\" for rclone://remote/path, or the path of a program (train/checkpoint/README.md); empty: by the "
           "scheme",
           "", TextField{in<&C::checkpoint, &CheckpointConfig::client>}},
          {"checkpoint.client_timeout_ms", "milliseconds", "maximum time of one call of checkpoint.client", "",
           IntegerField{in<&C::checkpoint, &CheckpointConfig::client_timeout_ms>, 100, 86'400'000}},
          {"audit.every_steps", "steps",
           "steps between two checks of the samples and parameter hashes of all workers; 0: no checks", "--audit",
           IntegerField{in<&C::audit, &AuditConfig::every_steps>, 0, kMaxSteps}},
      });
}

template <auto Member>
KeySpec failure_time(const char* name, const char* unit, std::uint64_t min, const char* help) {
  return {name, unit, help, "", IntegerField{in<&C::failures, Member>, min, 10 * kDayMs}};
}

template <auto Member>
KeySpec failure_count(const char* name, const char* help) {
  return {name, "failures", help, "", IntegerField{in<&C::failures, Member>, 0, kMaxFailures, true}};
}

void add_failure_keys(std::vector<KeySpec>& keys) {
  using F = FailuresConfig;
  using P = PreemptionConfig;
  keys.insert(
      keys.end(),
      {
          {"failures.on_failure", "",
           "after the loss of a worker: replace: start another worker; shrink: go on with fewer; stop: end the run",
           "--on-failure", choice<&C::failures, &F::on_failure>(kOnFailureNames)},
          failure_count<&F::max_crashes>("failures.max_crashes",
                                         "crashes of the program within window_s that are tolerated"),
          failure_count<&F::max_hangs>("failures.max_hangs", "hanging workers within window_s that are tolerated"),
          failure_count<&F::max_infrastructure>(
              "failures.max_infrastructure",
              "losses of hosts, agents or connections within window_s that are tolerated"),
          {"failures.max_fruitless", "recoveries",
           "consecutive recoveries without a committed step between them that are tolerated", "",
           IntegerField{in<&C::failures, &F::max_fruitless>, 1, kMaxFailures, true}},
          {"failures.plain_restarts", "restarts",
           "how often all processes of a program that does not use the library are started again after a failure", "",
           IntegerField{in<&C::failures, &F::plain_restarts>, 0, kMaxFailures, true}},
          failure_time<&F::window_s>("failures.window_s", "seconds", 1, "time for which a failure counts"),
          failure_time<&F::wait_for_min_s>(
              "failures.wait_for_min_s", "seconds", 0,
              "maximum time to wait for hosts while fewer than workers.min workers are left"),
          failure_time<&F::halt_timeout_ms>(
              "failures.halt_timeout_ms", "milliseconds", 100,
              "maximum time for the survivors of a loss to halt, or twice the time of the last build; a survivor that "
              "does not "
              "is terminated, unless the state would be lost with it: then hang_max_ms more"),
          failure_time<&F::reconnect_grace_ms>(
              "failures.reconnect_grace_ms", "milliseconds", 0,
              "time for a broken connection to come back once survivors miss its workers"),
          failure_time<&F::cool_down_ms>(
              "failures.cool_down_ms", "milliseconds", 0,
              "time for which a host is not used after its second failure in a row; doubles with each further one"),
          failure_time<&F::cool_down_max_ms>("failures.cool_down_max_ms", "milliseconds", 0,
                                             "maximum cool-down of a host"),
          {"failures.detect_hangs", "", "terminate and replace workers that make no progress", "",
           BoolField{in<&C::failures, &F::detect_hangs>}},
          {"failures.hang_steps", "steps", "number of learned step times without progress that make a hang", "",
           IntegerField{in<&C::failures, &F::hang_steps>, 1, 1'000'000}},
          failure_time<&F::hang_min_ms>("failures.hang_min_ms", "milliseconds", 10,
                                        "minimum time without progress that counts as a hang, however short a step is"),
          failure_time<&F::hang_max_ms>(
              "failures.hang_max_ms", "milliseconds", 100,
              "time without progress that always counts as a hang, also in an evaluation or a checkpoint"),
          failure_time<&F::phase_timeout_ms>(
              "failures.phase_timeout_ms", "milliseconds", 100,
              "maximum time of a phase that a program announces (et_phase): data, evaluation, compile, checkpoint"),
          failure_time<&F::stacks_timeout_ms>(
              "failures.stacks_timeout_ms", "milliseconds", 0,
              "maximum time to collect the stacks of a hanging worker; 0: none are collected"),
          {"preemption.probe", "", "command that every host runs repeatedly; exit status 0: the host goes away", "",
           TextField{in<&C::preemption, &P::probe>}},
          {"preemption.probe_interval_ms", "milliseconds", "time between two runs of preemption.probe", "",
           IntegerField{in<&C::preemption, &P::probe_interval_ms>, 100, kDayMs}},
      });
}

template <auto Member>
KeySpec timeout(const char* name, std::uint64_t min, const char* help, const char* flag = "") {
  return {name, "milliseconds", help, flag, IntegerField{in<&C::timeouts, Member>, min, 10 * kDayMs}, *flag != '\0'};
}

void add_timeout_keys(std::vector<KeySpec>& keys) {
  using T = TimeoutsConfig;
  keys.insert(
      keys.end(),
      {
          timeout<&T::heartbeat_ms>("timeouts.heartbeat_ms", 10, "time between two heartbeats"),
          timeout<&T::suspect_ms>("timeouts.suspect_ms", 20, "silence after which a host is suspected"),
          timeout<&T::dead_ms>("timeouts.dead_ms", 30, "silence after which a host counts as lost"),
          timeout<&T::worker_dead_ms>("timeouts.worker_dead_ms", 30, "silence after which a worker counts as lost"),
          timeout<&T::prepare_ms>("timeouts.prepare_ms", 100, "maximum time to build the next communicator"),
          timeout<&T::ready_ms>("timeouts.ready_ms", 100, "maximum time from the start of a worker until it is ready"),
          timeout<&T::start_ms>(
              "timeouts.start_ms", 100,
              "maximum time until the minimum number of workers is ready; with an endpoint: from then on, for hosts "
              "of workers.start, which a program of fixed size cannot take later",
              "--start-timeout"),
          timeout<&T::grace_ms>("timeouts.grace_ms", 0, "time between the request that a worker exits and its kill",
                                "--grace"),
          timeout<&T::orphan_grace_ms>("timeouts.orphan_grace_ms", 0,
                                       "time for which hosts train on after this command is gone"),
          timeout<&T::cluster_ms>("timeouts.cluster_ms", 100,
                                  "maximum time for a cluster to answer, and for the last line to it"),
          timeout<&T::resume_timeout_ms>("timeouts.resume_timeout_ms", 100,
                                         "maximum time for the hosts of a resumed run to reconnect"),
          {"timeouts.time_limit_s", "seconds", "stop the run after this time; 0: no limit", "--time-limit",
           IntegerField{in<&C::timeouts, &T::time_limit_s>, 0, 3650 * 86'400ULL}, true},
      });
}

void add_log_keys(std::vector<KeySpec>& keys) {
  using L = LogConfig;
  keys.insert(
      keys.end(),
      {
          {"log.directory", "",
           "directory for log files: one for the output of each worker, run.log for the messages of the run",
           "--log-dir", TextField{in<&C::log, &L::directory>}},
          {"log.label", "",
           "prefix of each line of a worker: {rank} {local_rank} {host} {gen} {worker} {stream} {time} {pid}", "",
           TextField{in<&C::log, &L::label>, check_label}},
          {"log.step_directory", "", "directory for step times, one file for each worker", "--step-log",
           TextField{in<&C::log, &L::step_directory>}},
          {"log.timestamp", "", "begin each line of a worker with the time", "--timestamp",
           BoolField{in<&C::log, &L::timestamp>}},
          {"log.show_ranks", "", "ranks whose output is shown: 0,4-7, all or none", "--show-ranks",
           TextField{in<&C::log, &L::show_ranks>, check_ranks}},
          {"log.tee", "", "with log.directory: ranks whose output is also shown", "--tee",
           TextField{in<&C::log, &L::tee>, check_ranks}},
          {"log.max_size_bytes", "bytes", "size at which a log file is rotated; 0: never", "--log-max-size",
           IntegerField{in<&C::log, &L::max_size_bytes>, 0, 1ULL << 40}},
          {"log.keep", "files", "rotated log files to keep for each worker", "--log-keep",
           IntegerField{in<&C::log, &L::keep>, 0, 1000}},
          {"log.kept_bytes", "bytes", "size of all output kept for elastictrain logs, the oldest lines go; 0: none", "",
           IntegerField{in<&C::log, &L::kept_bytes>, 0, 1ULL << 40}},
          {"report.on_end", "",
           "file for the report of the run (elastictrain report), written when it ends; nothing: none", "--report",
           TextField{in<&C::report, &ReportConfig::on_end>}},
          {"metrics.listen", "",
           "port, or address:port, at which Prometheus reads the run's metrics (/metrics); a port alone: this machine "
           "only; nothing: not served",
           "--metrics", TextField{in<&C::metrics, &MetricsConfig::listen>, check_listen}},
          {"metrics.file", "", "file for the run's metrics, for node_exporter (NAME.prom); nothing: none", "",
           TextField{in<&C::metrics, &MetricsConfig::file>}},
          {"metrics.interval_ms", "milliseconds", "time between two writes of metrics.file", "",
           IntegerField{in<&C::metrics, &MetricsConfig::interval_ms>, 100, kDayMs}},
          {"on.loss", "", "shell command after the loss of a worker or host; its environment says what happened", "",
           TextField{in<&C::on, &HooksConfig::loss>}},
          {"on.recovered", "", "shell command when training goes on after a loss", "",
           TextField{in<&C::on, &HooksConfig::recovered>}},
          {"on.resized", "", "shell command after a change of the world size", "",
           TextField{in<&C::on, &HooksConfig::resized>}},
          {"on.ended", "", "shell command at the end of the run, which waits for it", "",
           TextField{in<&C::on, &HooksConfig::ended>}},
          {"on.timeout_ms", "milliseconds", "maximum time of a command of [on]; after that it is ended", "",
           IntegerField{in<&C::on, &HooksConfig::timeout_ms>, 100, kDayMs}},
      });
}

void add_other_keys(std::vector<KeySpec>& keys) {
  using N = NetworkConfig;
  keys.insert(
      keys.end(),
      {
          {"network.interface", "", "network interface for training and control; default: by route", "--interface",
           TextField{in<&C::network, &N::interface>, check_word}},
          {"network.transport", "", "auto: shared memory within a host, TCP between hosts; tcp: TCP only",
           "--transport", choice<&C::network, &N::transport>(kTransportNames)},
          {"network.backend", "",
           "data plane for sums of gradients; auto: NCCL between GPUs, else cpu; mpi: needs launcher.kind = mpi",
           "--backend", choice<&C::network, &N::backend>(kBackendNames)},
          {"network.topology", "", "shape along which workers sum their gradients; auto: the fastest", "",
           choice<&C::network, &N::topology>(protocol::kTopologyNames)},
          {"network.encryption", "",
           "protection of sums and state between hosts, by AES-GCM; none: authenticated ends only; integrity: changes "
           "are refused; full: encrypted as well",
           "", choice<&C::network, &N::encryption>(protocol::kEncryptionNames)},
          {"network.listen", "", "addresses on which the run listens for its agents", "",
           ListField{in<&C::network, &N::listen>, check_address}},
          {"network.advertise", "", "addresses to which agents connect, if these differ from network.listen", "",
           ListField{in<&C::network, &N::advertise>, check_address}},
          {"network.port", "", "port to which agents connect; 0: any free port", "",
           IntegerField{in<&C::network, &N::port>, 0, 65535}},
          {"signals.forward", "", "signals that are passed to workers; none: no signals", "--forward-signals",
           ListField{in<&C::signals, &SignalsConfig::forward>, check_signal}},
          {"signals.usr1", "",
           "drain: USR1 asks the run to leave and is not passed to workers; auto: drain in a batch job, else forward",
           "", choice<&C::signals, &SignalsConfig::usr1>(kUsr1Names)},
          {"signals.hup", "", "leave: a hang-up of the terminal ends the run as TERM does; ignore: the run goes on", "",
           choice<&C::signals, &SignalsConfig::hup>(kHangUpNames)},
          {"environment.pass", "", "environment variables that workers inherit; NAME* matches all that begin with NAME",
           "", ListField{in<&C::environment, &EnvironmentConfig::pass>, check_variable_pattern}},
          {"environment.set", "", "environment variables for workers, each NAME=value", "",
           ListField{in<&C::environment, &EnvironmentConfig::set>, check_assignment, true}},
          {"environment.file", "", "file with environment variables for workers, one NAME=value per line", "--env-file",
           TextField{in<&C::environment, &EnvironmentConfig::file>}},
      });
}

void add_policy_keys(std::vector<KeySpec>& keys) {
  using P = PolicyConfig;
  keys.insert(
      keys.end(),
      {
          {"policy.name", "", "policy that decides on the size during training; fixed: no automatic changes",
           "--policy", TextField{in<&C::policy, &P::name>, check_policy}},
          {"policy.beside", "", "further policies, which decide on other things: adasgd, interference, noise-batch", "",
           ListField{in<&C::policy, &P::beside>, check_companion}},
          {"policy.library", "", "shared object that decides instead of policy.name (elastictrain/policy.h)", "",
           TextField{in<&C::policy, &P::library>}},
          {"policy.argument", "", "text that is passed to policy.library", "", TextField{in<&C::policy, &P::argument>}},
          {"policy.program", "",
           "program that decides instead of policy.name: reads a view and writes a decision, each one line of JSON", "",
           ListField{in<&C::policy, &P::program>, nullptr, false, true}},
          {"policy.utility_program", "",
           "for the policies cost and or: program that says what the finished job is worth, instead of their utility: "
           "reads the run's state and writes {\"utility\": [[SECONDS, VALUE], ...]}, each one line of JSON",
           "", ListField{in<&C::policy, &P::utility_program>, nullptr, false, true}},
          {"policy.timeout_ms", "milliseconds",
           "maximum time for policy.program to answer a view, after that the size stays for good; and for "
           "policy.utility_program, after that the policy's utility counts",
           "", IntegerField{in<&C::policy, &P::timeout_ms>, 1, kDayMs}},
          {"policy.interval_ms", "milliseconds",
           "time between two calls of the policy, and of the watch over slow workers; 0: 1000, or 10000 where the "
           "size is fixed and slow workers are only reported",
           "", IntegerField{in<&C::policy, &P::interval_ms>, 0, kDayMs}},
          {"policy.warm_up_steps", "steps", "first steps after a change, which are not measured", "",
           IntegerField{in<&C::policy, &P::warm_up_steps>, 0, 1'000'000}},
          {"policy.cool_down_ms", "milliseconds", "minimum time between two changes of the size by the policy; 0: none",
           "", IntegerField{in<&C::policy, &P::cool_down_ms>, 0, 10 * kDayMs}},
          {"policy.hysteresis", "",
           "relative difference above which a new target size takes effect at once; a smaller one must be requested 3 "
           "times in a row",
           "", NumberField{in<&C::policy, &P::hysteresis>, 0, 10}},
          {"policy.samples_total", "samples",
           "samples of the whole job, for policies that plan to its end; 0: as the program says", "",
           IntegerField{in<&C::policy, &P::samples_total>, 0, 1ULL << 60}},
          {"policy.seed", "", "seed of the random choices of the policy", "",
           IntegerField{in<&C::policy, &P::seed>, 0, 1ULL << 62}},
      });
}

void add_length_and_cost_keys(std::vector<KeySpec>& keys) {
  keys.insert(
      keys.end(),
      {
          {"convergence.threshold", "",
           "of a program that does not say how long it trains: it has converged when the mean loss of a window is less "
           "than this share of its largest loss below that of the window before; 0: no length is estimated",
           "", NumberField{in<&C::convergence, &ConvergenceConfig::threshold>, 0, 1}},
          {"convergence.windows", "windows", "number of such windows in a row that make it converged", "",
           IntegerField{in<&C::convergence, &ConvergenceConfig::windows>, 1, 1000}},
          {"convergence.window_samples", "samples", "length of a window; 0: an epoch", "",
           IntegerField{in<&C::convergence, &ConvergenceConfig::window_samples>, 0, 1ULL << 50}},
          {"cost.price_per_worker_hour", "", "price of one worker for an hour, in any currency", "",
           NumberField{in<&C::cost, &CostConfig::price_per_worker_hour>, 0, 1e9}},
          {"cost.host_classes", "", "prices by host name, for example {\"gpu-*\" = \"2.5\"}", "",
           ListField{in<&C::cost, &CostConfig::host_classes>, check_host_class, true}},
      });
}

void add_keys_of_each_policy(std::vector<KeySpec>& keys) {
  for (const auto& policy : heuristics::policies()) {
    for (const auto& parameter : policy.parameters) {
      // It runs next to any policy that decides on the size, so it has a section of its own.
      const std::string section = policy.name == "stragglers" ? policy.name : "policy." + policy.name;
      keys.push_back(
          {section + "." + parameter.name, parameter.unit, parameter.help, "", PolicyKeyField{&policy, &parameter}});
    }
  }
}

void add_trainer_keys(std::vector<KeySpec>& keys) {
  for (const train::TrainerField& field : train::trainer_fields()) {
    keys.push_back({"trainer." + std::string(field.name), std::string(field.unit), std::string(field.help), "",
                    TrainerKeyField{&field}});
  }
}

std::vector<KeySpec> make_schema() {
  std::vector<KeySpec> keys;
  add_job_keys(keys);
  add_host_keys(keys);
  add_launcher_keys(keys);
  add_training_keys(keys);
  add_checkpoint_keys(keys);
  add_failure_keys(keys);
  add_policy_keys(keys);
  add_length_and_cost_keys(keys);
  add_keys_of_each_policy(keys);
  add_timeout_keys(keys);
  add_log_keys(keys);
  add_other_keys(keys);
  add_trainer_keys(keys);
  return keys;
}

}  // namespace

const std::vector<KeySpec>& schema() {
  static const std::vector<KeySpec> keys = make_schema();
  return keys;
}

const KeySpec* find_key(std::string_view name) {
  for (const KeySpec& key : schema()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::pair<std::string_view, std::string_view> split_key(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string environment_name(const KeySpec& key) {
  std::string name = "ELASTICTRAIN_";
  for (const char c : key.name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    name += is_plain ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : '_';
  }
  return name;
}

}  // namespace elastictrain::cli
