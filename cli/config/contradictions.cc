#include "cli/config/contradictions.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "cli/config/checks.h"
#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"
#include "supervisor/protocol/remote_place.h"

namespace elastictrain::cli {
namespace {

// At most one key of each list may be set.
constexpr const char* kHostKeys[] = {"hosts.list", "hosts.file", "hosts.discover", "hosts.endpoint"};
constexpr const char* kPolicyKeys[] = {"policy.name", "policy.library", "policy.program"};

Level level_of(const LoadedConfig& loaded, std::string_view key) {
  const auto found = loaded.origins.find(key);
  return found == loaded.origins.end() ? Level::kDefault : found->second.level;
}

// "timeouts.dead_ms = 500 (config.toml:7:1)".
std::string cite(const LoadedConfig& loaded, const char* name) {
  return std::string(name) + " = " + render_value(loaded.config, *find_key(name)) + " (" + loaded.where(name) + ")";
}

std::uint64_t number(const LoadedConfig& loaded, const char* name) {
  return *parse_whole_number(render_value(loaded.config, *find_key(name)));
}

bool has_utility(const PolicyConfig& policy) {
  return policy.library.empty() && policy.program.empty() && (policy.name == "cost" || policy.name == "or");
}

class Finder {
 public:
  Finder(const LoadedConfig& loaded, bool starts_nothing)
      : loaded_(loaded), config_(loaded.config), starts_nothing_(starts_nothing) {}

  std::vector<Contradiction> find() {
    check_sizes();
    check_replicas();
    check_what_to_run();
    check_alternatives(kHostKeys);
    check_expand();
    check_cluster();
    check_mpi();
    check_command();
    check_job();
    check_alternatives(kPolicyKeys);
    check_policy();
    check_timeouts();
    check_failures();
    check_checkpoint();
    check_log();
    check_batch();
    check_trainer();
    check_signals();
    return std::move(found_);
  }

 private:
  void add(std::initializer_list<const char*> keys, std::string message) {
    Level level = Level::kFlag;
    for (const char* key : keys) {
      if (level_of(loaded_, key) != Level::kDefault) level = std::min(level, level_of(loaded_, key));
    }
    found_.push_back({std::move(message), level});
  }

  void order(const char* smaller, const char* larger, bool may_be_equal, const std::string& why) {
    const std::uint64_t low = number(loaded_, smaller);
    const std::uint64_t high = number(loaded_, larger);
    if (low < high || (may_be_equal && low == high)) return;
    add({smaller, larger}, cite(loaded_, smaller) + " must be " + (may_be_equal ? "at most " : "less than ") +
                               cite(loaded_, larger) + why);
  }

  void check_sizes() {
    const WorkersConfig& workers = config_.workers;
    if (workers.max != 0) order("workers.min", "workers.max", true, "");
    if (workers.start == 0) return;
    order("workers.min", "workers.start", true, "");
    if (workers.max != 0) order("workers.start", "workers.max", true, "");
  }

  // Hosts are used in groups, whose lists and slots are those of their hosts.
  void check_replicas() {
    const WorkersConfig& workers = config_.workers;
    if (workers.hosts_per_replica == 1) return;
    const std::string hosts = cite(loaded_, "workers.hosts_per_replica");
    if (workers.per_replica % workers.hosts_per_replica != 0) {
      add({"workers.hosts_per_replica", "workers.per_replica"},
          hosts + " must divide " + cite(loaded_, "workers.per_replica") + ": each host has as many of the processes");
    }
    const auto refuse = [&](const char* key, const std::string& why) {
      add({"workers.hosts_per_replica", key}, hosts + " and " + cite(loaded_, key) + " exclude each other: " + why);
    };
    if (!config_.cluster.empty()) refuse("cluster", "a cluster leases single slots");
    if (config_.launcher.kind == LauncherKind::kMpi) refuse("launcher.kind", "MPI starts all processes at once");
    if (config_.hosts.keep_warm_s != 0) refuse("hosts.keep_warm_s", "a process would stay warm on one host only");
    if (!config_.hosts.expand.empty()) refuse("hosts.expand", "it asks for slots, not for groups of hosts");
    if (config_.use_trainer) {
      add({"workers.hosts_per_replica"},
          hosts + " needs a PyTorch program that divides its model; [trainer] trains a whole one");
    }
  }

  void check_what_to_run() {
    if (config_.command.empty() && !config_.use_trainer) {
      if (starts_nothing_) return;
      add({},
          "nothing to run: put a program after --, e.g. elastictrain run -n 4 -- ./train, or name a config file with "
          "command or [trainer]");
    } else if (!config_.command.empty() && config_.use_trainer) {
      const std::string trainer = first_trainer_key();
      add({"command", trainer.c_str()}, "command (" + loaded_.where("command") + ") and [trainer] (" +
                                            loaded_.where(trainer) + ") exclude each other: remove one");
    }
    if (config_.use_trainer && config_.workers.per_replica > 1) {
      add({"workers.per_replica"}, cite(loaded_, "workers.per_replica") +
                                       " needs a PyTorch program that divides its model; [trainer] trains a whole one");
    }
    if (!config_.command.empty() && config_.command[0].empty()) add({"command"}, "the program's name is empty");
  }

  std::string first_trainer_key() const {
    for (const auto& [key, origin] : loaded_.origins) {
      if (key.starts_with("trainer.")) return key;
    }
    return "trainer";
  }

  void check_alternatives(std::span<const char* const> keys) {
    const RunConfig defaults;
    std::vector<const char*> set;
    for (const char* key : keys) {
      const KeySpec& spec = *find_key(key);
      if (render_value(config_, spec) != render_value(defaults, spec)) set.push_back(key);
    }
    if (set.size() < 2) return;
    add({set[0], set[1]}, cite(loaded_, set[0]) + " and " + cite(loaded_, set[1]) + " exclude each other: remove one");
  }

  void check_expand() {
    if (config_.hosts.shrink.empty() || !config_.hosts.expand.empty()) return;
    add({"hosts.shrink"}, cite(loaded_, "hosts.shrink") + " needs hosts.expand");
  }

  // The lease is the list of hosts.
  void check_cluster() {
    if (config_.cluster.empty()) return;
    for (const char* key : {"hosts.list", "hosts.file", "hosts.discover", "hosts.expand"}) {
      if (render_value(config_, *find_key(key)).empty()) continue;
      add({"cluster", key},
          cite(loaded_, "cluster") + " leases the run its hosts, so " + cite(loaded_, key) + " must not be set");
    }
    if (config_.launcher.kind == LauncherKind::kMpi) {
      add({"cluster", "launcher.kind"}, cite(loaded_, "launcher.kind") + " starts all processes at once, so " +
                                            cite(loaded_, "cluster") + " cannot change their number");
    }
  }

  void check_job() {
    const JobConfig& job = config_.job;
    if (job.priority != std::floor(job.priority)) {
      add({"job.priority"}, cite(loaded_, "job.priority") + " must be a whole number");
    }
    if (job.most_slots > 0) order("workers.min", "job.most_slots", true, "");
  }

  // MPI starts all of its processes at once and accepts none later.
  void check_mpi() {
    const bool by_mpi = config_.launcher.kind == LauncherKind::kMpi;
    if (by_mpi && config_.launcher.mpi_command.empty()) {
      add({"launcher.mpi_command"}, cite(loaded_, "launcher.mpi_command") + " must not be empty");
    }
    if (config_.network.backend != BackendChoice::kMpi) return;
    const std::string backend = cite(loaded_, "network.backend");
    if (!by_mpi) {
      add({"network.backend", "launcher.kind"}, backend + " needs workers started by MPI: " +
                                                    cite(loaded_, "launcher.kind") + " must be mpi (--launcher mpi)");
    }
    for (const char* key : {"hosts.discover", "hosts.expand"}) {
      if (render_value(config_, *find_key(key)).empty()) continue;
      add({"network.backend", key}, backend + " accepts no worker after the start, so " + cite(loaded_, key) +
                                        " cannot add workers: list all hosts");
    }
  }

  void check_command() {
    const bool by_command = config_.launcher.kind == LauncherKind::kCommand;
    if (by_command && config_.launcher.command.empty()) {
      add({"launcher.command"},
          cite(loaded_, "launcher.kind") +
              " needs launcher.command, such as [\"kubectl\", \"exec\", \"-i\", \"{host}\", \"--\"]");
    }
    if (by_command || config_.launcher.command.empty()) return;
    add({"launcher.command", "launcher.kind"},
        cite(loaded_, "launcher.command") + " needs " + cite(loaded_, "launcher.kind") + " to be command");
  }

  void check_policy() {
    const auto& beside = config_.policy.beside;
    if (std::find(beside.begin(), beside.end(), config_.policy.name) != beside.end()) {
      add({"policy.beside"}, cite(loaded_, "policy.beside") + " is the same as policy.name: remove one");
    }
    if (!config_.policy.utility_program.empty() && !has_utility(config_.policy)) {
      add({"policy.utility_program", "policy.name"}, cite(loaded_, "policy.utility_program") +
                                                         " needs policy.name = \"cost\" or \"or\", and no policy of "
                                                         "your own");
    }
    if (config_.policy.argument.empty() || !config_.policy.library.empty()) return;
    add({"policy.argument"}, cite(loaded_, "policy.argument") + " needs policy.library");
  }

  void check_timeouts() {
    for (const TimeoutOrder& rule : timeout_order()) {
      order(rule.smaller, rule.larger, rule.may_be_equal, std::string(": ") + rule.why);
    }
  }

  void check_failures() {
    if (config_.failures.detect_hangs) {
      order("failures.hang_min_ms", "failures.hang_max_ms", true, "");
      order("timeouts.heartbeat_ms", "failures.hang_min_ms", false,
            ": hang detection uses heartbeats; set failures.detect_hangs = false to switch it off");
    }
    order("failures.cool_down_ms", "failures.cool_down_max_ms", true, "");
  }

  void check_checkpoint() {
    const std::string& directory = config_.checkpoint.directory;
    if (!config_.checkpoint.client.empty() && !protocol::is_remote_place(directory)) {
      add({"checkpoint.client"}, cite(loaded_, "checkpoint.client") +
                                     " is for a checkpoint.directory in an object store, e.g. s3://bucket/runs/{run}");
    }
    const bool is_known = directory.starts_with("s3://") || directory.starts_with("rclone://");
    if (config_.checkpoint.client.empty() && protocol::is_remote_place(directory) && !is_known) {
      add({"checkpoint.directory"},
          cite(loaded_, "checkpoint.directory") +
              " needs checkpoint.client, a program that reaches it; s3://… and rclone://… need none");
    }
    if (!directory.empty()) return;
    const std::string needs = " needs checkpoint.directory";
    if (config_.checkpoint.resume) add({"checkpoint.resume"}, cite(loaded_, "checkpoint.resume") + needs);
    if (config_.checkpoint.interval_steps > 0)
      add({"checkpoint.interval_steps"}, cite(loaded_, "checkpoint.interval_steps") + needs);
  }

  void check_log() {
    if (config_.log.tee != "all" && config_.log.directory.empty()) {
      add({"log.tee"}, cite(loaded_, "log.tee") + " needs log.directory (--log-dir); to hide ranks use log.show_ranks");
    }
  }

  void check_batch() {
    const BatchConfig& batch = config_.batch;
    if (batch.max_global == 0 || batch.max_global >= batch.per_worker * config_.workers.min) return;
    add({"batch.max_global", "batch.per_worker", "workers.min"}, cite(loaded_, "batch.max_global") + " is less than " +
                                                                     cite(loaded_, "batch.per_worker") +
                                                                     " for each of " + cite(loaded_, "workers.min"));
  }

  void check_trainer() {
    if (!config_.use_trainer) return;
    const Status whole = train::validate(config_.trainer);
    const std::string key = first_trainer_key();
    if (!whole.ok()) add({key.c_str()}, "[trainer] (" + loaded_.where(key) + "): " + whole.error().message);
  }

  void check_signals() {
    const auto& forward = config_.signals.forward;
    const bool none = std::find(forward.begin(), forward.end(), "none") != forward.end();
    if (none && forward.size() > 1)
      add({"signals.forward"}, cite(loaded_, "signals.forward") + ": \"none\" must be the only entry");
    std::set<int> seen;
    for (const std::string& name : forward) {
      if (name != "none" && !seen.insert(signal_number(name)).second) {
        add({"signals.forward"}, cite(loaded_, "signals.forward") + ": " + name + " is named twice");
      }
    }
  }

  const LoadedConfig& loaded_;
  const RunConfig& config_;
  const bool starts_nothing_;
  std::vector<Contradiction> found_;
};

void reset(LoadedConfig& loaded, const char* key) {
  (void)assign_text(loaded.config, *find_key(key), render_value(RunConfig(), *find_key(key)));
  loaded.origins.erase(key);
}

// A value of a higher level replaces the alternatives of a lower level.
void settle(LoadedConfig& loaded, std::span<const char* const> keys) {
  Level highest = Level::kDefault;
  for (const char* key : keys) highest = std::max(highest, level_of(loaded, key));
  for (const char* key : keys) {
    if (level_of(loaded, key) != highest) reset(loaded, key);
  }
}

// A run of its own becomes a run of a cluster by a flag, or by the cluster that starts it.
void settle_cluster(LoadedConfig& loaded) {
  const Level cluster = level_of(loaded, "cluster");
  for (const char* key :
       {"hosts.list", "hosts.file", "hosts.discover", "hosts.endpoint", "hosts.expand", "hosts.shrink"}) {
    if (level_of(loaded, key) < cluster) reset(loaded, key);
  }
}

void settle_policy(LoadedConfig& loaded) {
  const bool had_library = !loaded.config.policy.library.empty();
  settle(loaded, kPolicyKeys);
  if (had_library && loaded.config.policy.library.empty()) reset(loaded, "policy.argument");
  const bool replaced = level_of(loaded, "policy.utility_program") < level_of(loaded, "policy.name");
  if (replaced && !has_utility(loaded.config.policy)) reset(loaded, "policy.utility_program");
}

// A flag replaces only what a file sets. Two alternatives of the same level are a contradiction.
void settle_program(LoadedConfig& loaded) {
  Level trainer = Level::kDefault;
  for (const auto& [key, origin] : loaded.origins) {
    if (key.starts_with("trainer.")) trainer = std::max(trainer, origin.level);
  }
  const Level command = level_of(loaded, "command");
  if (command == Level::kFlag && trainer != Level::kFlag && trainer != Level::kDefault) {
    loaded.config.use_trainer = false;
    loaded.config.trainer = {};
    std::erase_if(loaded.origins, [](const auto& origin) { return origin.first.starts_with("trainer."); });
  }
}

}  // namespace

const std::vector<TimeoutOrder>& timeout_order() {
  static const std::vector<TimeoutOrder> rules = {
      {"timeouts.heartbeat_ms", "timeouts.suspect_ms", false, "several heartbeats must be missed before a time-out"},
      {"timeouts.suspect_ms", "timeouts.dead_ms", false, "a host is suspected before it is declared dead"},
      {"timeouts.heartbeat_ms", "timeouts.worker_dead_ms", false,
       "several heartbeats must be missed before a time-out"},
  };
  return rules;
}

void settle_alternatives(LoadedConfig& loaded) {
  settle(loaded, kHostKeys);
  settle_cluster(loaded);
  settle_policy(loaded);
  settle_program(loaded);
}

std::vector<Contradiction> find_contradictions(const LoadedConfig& loaded, bool starts_nothing) {
  return Finder(loaded, starts_nothing).find();
}

}  // namespace elastictrain::cli
