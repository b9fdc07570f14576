// Purpose: all settings of `elastictrain run` as typed values. Member initializers are the defaults. The schema
// (schema.h) names every member once for the file, the environment and the command line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heuristics/policy/policy.h"
#include "supervisor/protocol/encryption.h"
#include "supervisor/protocol/plan_messages.h"
#include "train/builtin/options.h"

namespace elastictrain::cli {

enum class LauncherKind : std::uint8_t { kAuto, kLocal, kSsh, kBatch, kMpi, kCommand };
enum class SchedulerChoice : std::uint8_t { kAuto, kNone, kSlurm, kPbs, kLsf, kSge, kFlux };
enum class AtLimitChoice : std::uint8_t { kStop, kSplit };
enum class RateRuleChoice : std::uint8_t { kNone, kLinear, kSqrt, kAdaScale };
enum class TransportChoice : std::uint8_t { kAuto, kTcp };
enum class BackendChoice : std::uint8_t { kAuto, kCpu, kMpi, kNccl };
enum class Usr1Choice : std::uint8_t { kAuto, kForward, kDrain };
enum class HangUpChoice : std::uint8_t { kLeave, kIgnore };
enum class OnFailureChoice : std::uint8_t { kReplace, kShrink, kStop };

inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};  // "unlimited"

// kAuto: the NUMA node of the GPU if the built-in trainer computes on one, else none.
enum class BindChoice : std::uint8_t { kNone, kCore, kNuma, kAuto };

struct WorkersConfig {
  std::uint64_t min = 1;
  std::uint64_t start = 0;  // 0: as many as there are slots, up to max
  std::uint64_t max = 0;    // 0: the larger of min and start
  std::uint64_t spares = 0;
  std::uint64_t per_replica = 1;        // processes of a worker, which the program makes
  std::uint64_t hosts_per_replica = 1;  // on which they lie
  BindChoice bind = BindChoice::kAuto;
  std::vector<std::string> preload = {"auto"};  // Python modules; "auto": torch with --torch; "none"
  std::uint64_t preload_timeout_ms = 60'000;
};

enum class EndpointRole { kAuto, kHold, kJoin };

struct HostsConfig {
  std::vector<std::string> list;  // "name", "name:slots"
  std::string file;
  std::string discover;
  std::uint64_t discover_interval_ms = 5'000;
  std::uint64_t slots = 0;  // of a host without a slot count; 0: 1
  std::string expand;
  std::string shrink;
  std::uint64_t expand_timeout_ms = 600'000;
  std::uint64_t shrink_after_ms = 60'000;
  std::uint64_t keep_warm_s = 0;
  std::uint64_t keep_warm_memory_percent = 25;
  SchedulerChoice scheduler = SchedulerChoice::kAuto;  // whose allocation is used if no hosts are named
  std::string endpoint;                                // HOST:PORT at which the commands of all hosts meet
  EndpointRole endpoint_role = EndpointRole::kAuto;
  std::string secret_file;
  std::uint64_t join_timeout_ms = 600'000;
};

// What a run of a cluster asks of it.
struct JobConfig {
  bool one_host = false;
  double priority = 0;             // whole
  std::uint64_t deadline_s = 0;    // after it has become a job; 0: none
  std::uint64_t most_slots = 0;    // 0: workers.max
  std::uint64_t most_hosts = 0;    // 0: any number
  std::vector<std::string> hosts;  // empty: any
};

struct LauncherConfig {
  LauncherKind kind = LauncherKind::kAuto;
  std::string ssh_user;
  std::uint64_t ssh_port = 0;
  std::string ssh_identity;
  std::vector<std::string> ssh_args;
  std::string ssh_program = "ssh";
  std::uint64_t connect_timeout_ms = 10'000;
  std::uint64_t parallelism = 10;
  bool copy_binary = true;
  std::vector<std::string> mpi_command = {"mpirun"};
  std::vector<std::string> command;
};

struct BatchConfig {
  std::uint64_t max_share = 0;   // of one worker
  std::uint64_t per_worker = 0;  // as the program says
  std::uint64_t max_global = 0;
  AtLimitChoice at_limit = AtLimitChoice::kSplit;
};

struct LearningRateConfig {
  RateRuleChoice rule = RateRuleChoice::kNone;
  std::uint64_t ramp_steps = 0;
};

struct SynchronizationConfig {
  protocol::Synchronization strategy = protocol::Synchronization::kGradients;
  double weight = 0.1;
  std::uint64_t round_ms = 1'000;
};

struct TimeoutsConfig {
  std::uint64_t heartbeat_ms = 250;
  std::uint64_t suspect_ms = 1'000;
  std::uint64_t dead_ms = 3'000;
  std::uint64_t worker_dead_ms = 3'000;
  std::uint64_t start_ms = 60'000;
  std::uint64_t ready_ms = 60'000;
  std::uint64_t prepare_ms = 10'000;
  std::uint64_t grace_ms = 30'000;
  std::uint64_t orphan_grace_ms = 60'000;
  std::uint64_t resume_timeout_ms = 5'000;
  std::uint64_t cluster_ms = 10'000;
  std::uint64_t time_limit_s = 0;
};

struct LogConfig {
  std::string directory;
  std::string label = "[{host}:{rank}] ";
  std::string step_directory;
  bool timestamp = false;
  std::string show_ranks = "all";
  std::string tee = "all";
  std::uint64_t max_size_bytes = 64ULL << 20;
  std::uint64_t keep = 3;
  std::uint64_t kept_bytes = 64ULL << 20;
};

struct NetworkConfig {
  std::string interface;
  TransportChoice transport = TransportChoice::kAuto;
  BackendChoice backend = BackendChoice::kAuto;
  protocol::Topology topology = protocol::Topology::kAuto;
  protocol::Encryption encryption = protocol::Encryption::kFull;
  std::vector<std::string> listen;
  std::vector<std::string> advertise;
  std::uint64_t port = 0;
};

struct CheckpointConfig {
  std::string directory;
  std::uint64_t interval_steps = 0;
  std::uint64_t keep = 3;
  std::uint64_t timeout_ms = 60'000;
  bool resume = false;  // a fresh run begins with the newest valid checkpoint in `directory`
  bool adopt = false;   // `directory` may have belonged to another run, which has not finished
  std::string client;   // of a `directory` in an object store: "aws", "rclone" or a program; empty: by its scheme
  std::uint64_t client_timeout_ms = 1'800'000;
};

struct FailuresConfig {
  OnFailureChoice on_failure = OnFailureChoice::kReplace;
  std::uint64_t max_crashes = 10;
  std::uint64_t max_hangs = 10;
  std::uint64_t max_infrastructure = kNoLimit;
  std::uint64_t max_fruitless = 3;
  std::uint64_t plain_restarts = 0;
  std::uint64_t window_s = 3'600;
  std::uint64_t wait_for_min_s = 600;
  std::uint64_t halt_timeout_ms = 10'000;
  std::uint64_t reconnect_grace_ms = 300;
  std::uint64_t cool_down_ms = 10'000;
  std::uint64_t cool_down_max_ms = 600'000;
  bool detect_hangs = true;
  std::uint64_t hang_steps = 3;
  std::uint64_t hang_min_ms = 1'000;
  std::uint64_t hang_max_ms = 600'000;
  std::uint64_t phase_timeout_ms = 3'600'000;
  std::uint64_t stacks_timeout_ms = 500;
};

struct PreemptionConfig {
  std::string probe;
  std::uint64_t probe_interval_ms = 5'000;
};

struct PolicyConfig {
  std::string name = "fixed";
  std::vector<std::string> beside;   // policies that decide on other things than the size
  std::string library;               // path of a shared object; replaces a name
  std::string argument;              // passed to the library
  std::vector<std::string> program;  // replaces a name
  std::vector<std::string> utility_program;
  std::uint64_t timeout_ms = 1'000;
  std::uint64_t interval_ms = 0;
  std::uint64_t warm_up_steps = 1;
  std::uint64_t cool_down_ms = 0;
  double hysteresis = 0;
  std::uint64_t samples_total = 0;
  std::uint64_t seed = 1;
  std::map<std::string, heuristics::Parameters>
      parameters;  // by policy: the values set; the others are the policy's defaults
};

struct ConvergenceConfig {
  double threshold = 0.001;
  std::uint64_t windows = 3;
  std::uint64_t window_samples = 0;
};

struct CostConfig {
  double price_per_worker_hour = 0;
  std::vector<std::string> host_classes;  // "pattern=price"
};

struct ReportConfig {
  std::string on_end;  // file
};

struct MetricsConfig {
  std::string listen;  // "port" or "address:port"; empty: not served
  std::string file;
  std::uint64_t interval_ms = 10'000;
};

// Shell commands at events of the run; empty: none.
struct HooksConfig {
  std::string loss;
  std::string recovered;
  std::string resized;
  std::string ended;
  std::uint64_t timeout_ms = 30'000;

  bool any() const { return !loss.empty() || !recovered.empty() || !resized.empty() || !ended.empty(); }
};

struct AuditConfig {
  std::uint64_t every_steps = 0;
};

struct SignalsConfig {
  std::vector<std::string> forward = {"USR1", "USR2"};
  Usr1Choice usr1 = Usr1Choice::kAuto;
  HangUpChoice hup = HangUpChoice::kLeave;
};

struct EnvironmentConfig {
  std::vector<std::string> pass;  // names of variables of our own environment; a trailing * matches any suffix
  std::vector<std::string> set;   // "NAME=value"
  std::string file;               // one NAME=value per line
};

struct RunConfig {
  std::string name;
  std::vector<std::string> command;
  std::string working_directory;
  bool use_trainer = false;
  train::TrainerOptions trainer;
  WorkersConfig workers;
  HostsConfig hosts;
  std::string cluster;  // that leases the run its slots, by its name or the path of its socket; empty: none
  JobConfig job;
  LauncherConfig launcher;
  BatchConfig batch;
  LearningRateConfig learning_rate;
  SynchronizationConfig synchronization;
  TimeoutsConfig timeouts;
  LogConfig log;
  NetworkConfig network;
  CheckpointConfig checkpoint;
  FailuresConfig failures;
  PreemptionConfig preemption;
  PolicyConfig policy;
  ConvergenceConfig convergence;
  CostConfig cost;
  AuditConfig audit;
  ReportConfig report;
  HooksConfig on;
  MetricsConfig metrics;
  SignalsConfig signals;
  EnvironmentConfig environment;
};

}  // namespace elastictrain::cli
