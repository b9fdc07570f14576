#include "cli/commands/cluster/cluster.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/config/cluster_file.h"
#include "cli/config/load.h"
#include "cli/config/text.h"
#include "launcher/agent_program.h"
#include "launcher/batch/allocation.h"
#include "launcher/elastic_hosts.h"
#include "launcher/host_sources.h"
#include "launcher/hostfile.h"
#include "supervisor/cluster/cluster_process.h"
#include "supervisor/control/control_client.h"
#include "supervisor/run_directory.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {

cluster_core::Probed probe_run(const cluster_core::Job& job) {
  using State = cluster_core::Probed::State;
  cluster_core::Probed answer{job.id, State::kUnknown, 0};
  if (job.owner.uid != ::geteuid()) return answer;
  std::string directory = job.directory;
  if (directory.empty()) {
    const auto own = run_directory_of(job.spec.name);
    if (own.ok()) directory = *own;
  }
  if (directory.empty() || (::access(directory.c_str(), R_OK) != 0 && errno == EACCES)) return answer;
  if (control::is_live(directory) || RunDirectory::is_held(directory)) {
    answer.state = State::kAlive;
    return answer;
  }
  const auto record = load_run_record(directory);
  if (!record.ok()) {
    if (record.error().code == ErrorCode::kUnavailable) answer.state = State::kNoRun;
  } else if (!record->end) {
    answer.state = State::kDead;
  } else if (record->end->ended_unix_s < job.submitted_unix_s) {
    answer.state = State::kNoRun;  // of an older run of this name
  } else {
    answer.state = State::kEnded;
    answer.status = record->end->exit_status;
  }
  return answer;
}

namespace {

using What = cluster_core::HelpersChanged::What;
using Told = launcher::HostsChange::What;

Result<std::vector<launcher::Host>> hosts_of_batch_job() {
  const auto environment = process_environment();
  const std::map<std::string, std::string> variables(environment.begin(), environment.end());
  const launcher::Scheduler scheduler = launcher::detect_scheduler(variables);
  if (scheduler == launcher::Scheduler::kNone) {
    return Error{
        ErrorCode::kInvalid,
        "hosts: give either hosts.list or hosts.file; this process is in no batch job whose hosts it could share"};
  }
  auto allocation = launcher::read_allocation(scheduler, launcher::real_surroundings(variables));
  if (!allocation.ok()) return allocation.error();
  return std::move(allocation->hosts);
}

Result<std::unique_ptr<launcher::HostSource>> first_hosts(asio::io_context& io, const ClusterFile& file) {
  if (!file.host_file.empty()) return launcher::hostfile_source(io, file.host_file, file.poll_ms);
  if (file.host_list.empty()) {
    auto allocated = hosts_of_batch_job();
    if (!allocated.ok()) return allocated.error();
    return launcher::static_hosts(io, std::move(*allocated));
  }
  auto hosts = launcher::parse_host_list(join(file.host_list, ","));
  if (!hosts.ok()) return hosts.error();
  for (std::size_t i = 0; i < hosts->size(); ++i) {
    const bool said = i < file.host_list.size() && file.host_list[i].find(':') != std::string::npos;
    if (!said) (*hosts)[i].slots = static_cast<std::uint32_t>(file.host_slots);
  }
  return launcher::static_hosts(io, std::move(*hosts));
}

What what_of(Told told) {
  switch (told) {
    case Told::kAsked:
      return What::kAsked;
    case Told::kWithdrawn:
      return What::kWithdrawn;
    case Told::kFailed:
      return What::kFailed;
    case Told::kCame:
      return What::kCame;
    case Told::kLeft:
      return What::kLeft;
    case Told::kLost:
      return What::kLost;
    case Told::kReturned:
      return What::kReturned;
  }
  return What::kFailed;
}

cluster_core::HelpersChanged change_of(const launcher::HostsChange& told) {
  cluster_core::HelpersChanged change{what_of(told.what), told.slots, told.text, {}};
  for (const launcher::Host& host : told.known) change.helpers.push_back({host.name, host.slots, host.job});
  return change;
}

launcher::ElasticHostsOptions options_of(const ClusterFile& file, const cluster::GrowthInputs& inputs) {
  const GrowthOfFile& growth = file.growth;
  launcher::ElasticHostsOptions options;
  options.expand = growth.expand;
  options.shrink = growth.shrink;
  options.alive = growth.alive;
  options.job = file.name;
  options.timeout = std::chrono::milliseconds(growth.expand_timeout_ms);
  options.alive_interval = std::chrono::milliseconds(growth.alive_interval_ms);
  options.settings.can_expand = true;
  options.settings.can_shrink = !growth.shrink.empty();
  options.settings.expand_after = std::chrono::milliseconds(growth.expand_after_ms);
  options.settings.shrink_after = std::chrono::milliseconds(growth.shrink_after_ms);
  options.added = inputs.helpers;
  options.on_change = [changed = inputs.changed](const launcher::HostsChange& told) { changed(change_of(told)); };
  return options;
}

}  // namespace

Result<cluster::MakeHosts> hosts_of_cluster(asio::io_context& io, const ClusterFile& file,
                                            std::function<void(const std::string&)> say) {
  auto first = first_hosts(io, file);
  if (!first.ok()) return first.error();
  // Copyable, as a std::function must be; it is called once.
  const auto beneath = std::make_shared<std::unique_ptr<launcher::HostSource>>(std::move(*first));
  if (file.growth.expand.empty()) {
    return cluster::MakeHosts([beneath](const cluster::GrowthInputs&) { return std::move(*beneath); });
  }
  return cluster::MakeHosts([&io, file, say = std::move(say), beneath](const cluster::GrowthInputs& inputs) {
    const auto demand = [asked = inputs.demand]() -> std::optional<launcher::HostDemand> {
      const auto given = asked();
      return given ? std::optional(demand_of(*given)) : std::nullopt;
    };
    return std::make_unique<launcher::ElasticHosts>(io, std::move(*beneath), options_of(file, inputs), demand, say);
  });
}

FirstJobs::FirstJobs(asio::io_context& io, std::vector<JobOfFile> jobs, std::string directory,
                     std::string config_directory, std::function<void(const std::string&)> say)
    : io_(io),
      left_(std::move(jobs)),
      directory_(std::move(directory)),
      config_directory_(std::move(config_directory)),
      say_(std::move(say)) {
  std::reverse(left_.begin(), left_.end());
}

void FirstJobs::submit(const std::map<cluster_core::JobId, cluster_core::Job>& known) {
  std::erase_if(left_, [&](const JobOfFile& job) {
    return std::any_of(known.begin(), known.end(), [&](const auto& one) { return one.second.spec.name == job.name; });
  });
  submit_next();
}

std::vector<std::string> FirstJobs::command(const JobOfFile& job) const {
  std::vector<std::string> words = {"/proc/self/exe", "submit", "--name", job.name, "--cluster", directory_ + "/"};
  if (job.priority != 0) words.push_back("--priority=" + std::to_string(job.priority));
  if (!job.config.empty()) words.push_back(job.config);
  words.insert(words.end(), job.arguments.begin(), job.arguments.end());
  return words;
}

void FirstJobs::submit_next() {
  if (left_.empty()) return;
  const JobOfFile job = std::move(left_.back());
  left_.pop_back();
  launcher::ProcessSpec spec;
  spec.argv = command(job);
  spec.environment = launcher::own_environment();
  spec.working_directory = config_directory_;
  spec.standard_output = launcher::Stream::kNull;
  spec.standard_error = launcher::Stream::kInherit;
  auto started = launcher::Process::spawn(io_, spec, [this, name = job.name](launcher::ExitStatus status) {
    if (status.signal != 0 || status.exit_code != 0) say_("job " + name + " of the cluster's file was not submitted");
    // Not here: the process that has ended must not be destroyed in its own handler.
    asio::post(io_, [this] { submit_next(); });
  });
  if (!started.ok()) return say_("job " + job.name + " of the cluster's file: " + started.error().message);
  process_ = std::move(*started);
}

// `elastictrain cluster`: shares hosts among many runs.
namespace {

constexpr const char* kClusterDetails = R"(
  elastictrain cluster cluster.toml          configs/cluster.toml shows every key
  elastictrain submit job.toml               from another terminal; then: elastictrain queue --watch

TERM or Ctrl-C ends this process and no run: they train on, and the next cluster process takes them up.
)";

int fail_cluster(const std::string& text, int status) {
  std::cerr << "elastictrain cluster: " << text << "\n";
  return status;
}

constexpr std::uint32_t kQueuedOfOthers = 256;  // as many as connections

cluster_core::Limits limits_from(const LimitsOfFile& given, cluster_core::Limits limits) {
  limits.slots = given.slots.value_or(limits.slots);
  limits.running = given.running.value_or(limits.running);
  limits.queued = given.queued.value_or(limits.queued);
  limits.priority = given.priority.value_or(limits.priority);
  limits.submit = given.submit.value_or(limits.submit);
  return limits;
}

std::vector<std::string> groups_of(const std::string& user) {
  std::vector<std::string> names;
  const passwd* const entry = ::getpwnam(user.c_str());
  if (entry == nullptr) return names;
  int count = 256;
  std::vector<gid_t> ids(static_cast<std::size_t>(count));
  if (::getgrouplist(user.c_str(), entry->pw_gid, ids.data(), &count) < 0) return names;
  for (int i = 0; i < count; ++i) {
    if (const group* const one = ::getgrgid(ids[static_cast<std::size_t>(i)])) names.emplace_back(one->gr_name);
  }
  return names;
}

// All, then the groups of the user by name, then the user.
cluster_core::Limits limits_of(const ClusterFile& file, const cluster_core::Owner& owner) {
  cluster_core::Limits limits;
  if (!owner.of_cluster) limits.queued = kQueuedOfOthers;
  limits = limits_from(file.limits, limits);
  if (!file.groups.empty()) {
    std::vector<std::string> groups = groups_of(owner.name);
    std::sort(groups.begin(), groups.end());
    for (const std::string& name : groups) {
      if (const auto found = file.groups.find(name); found != file.groups.end()) {
        limits = limits_from(found->second, limits);
      }
    }
  }
  if (const auto found = file.users.find(owner.name); found != file.users.end())
    limits = limits_from(found->second, limits);
  return limits;
}

policy::Outside outside_of(const ClusterFile& file) {
  return {file.outside.library, file.outside.argument, file.outside.program, file.outside.timeout_ms};
}

cluster::ClusterOptions options_of(const ClusterFile& file, const std::string& directory) {
  cluster::ClusterOptions options;
  options.name = file.name;
  options.directory = directory;
  options.everyone = file.everyone;
  options.say = [](const std::string& text) { std::cerr << "elastictrain cluster: " << text << std::endl; };
  options.probe = probe_run;
  options.journal_max_bytes = file.journal_max_bytes;
  cluster_core::Settings& settings = options.settings;
  settings.version = launcher::build_id();
  options.policy = outside_of(file);
  settings.outside = file.outside.any();
  settings.policy = settings.outside ? policy::short_name(options.policy) : file.policy;
  settings.slice_s = static_cast<double>(file.slice_ms) / 1000;
  settings.suspended_per_slot = static_cast<std::uint32_t>(file.suspended_per_slot);
  settings.packing = file.packing;
  settings.migration = file.migration;
  settings.estimated_lengths = file.estimated_lengths;
  settings.recall_timeout_s = static_cast<double>(file.recall_timeout_ms) / 1000;
  settings.resume_timeout_s = static_cast<double>(file.resume_timeout_ms) / 1000;
  settings.join_timeout_s = static_cast<double>(file.join_timeout_ms) / 1000;
  settings.orphan_grace_s = static_cast<double>(file.orphan_grace_ms) / 1000;
  settings.most_slots = static_cast<std::uint32_t>(file.growth.most_slots);
  settings.least_gain = file.growth.least_gain;
  settings.limits = [file](const cluster_core::Owner& owner) { return limits_of(file, owner); };
  return options;
}

}  // namespace

int run_cluster(const std::string& path, const cluster::FindBroken& find_broken) {
  const auto text = read_config_file(path);
  if (!text.ok()) return fail_cluster(text.error().message, kExitNoInput);
  const auto read = read_cluster_file(*text, path);
  if (const auto* mistakes = std::get_if<ClusterFileError>(&read)) {
    for (const std::string& one : mistakes->messages) std::cerr << one << "\n";
    return kExitConfig;
  }
  const auto& file = std::get<ClusterFile>(read);
  const auto directory = directory_of_cluster(file.directory.empty() ? file.name : file.directory + "/");
  if (!directory.ok()) return fail_cluster(directory.error().message, kExitConfig);
  asio::io_context io{1};
  cluster::ClusterOptions options = options_of(file, *directory);
  const std::string policy_name = options.settings.policy;
  if (const Status usable = policy::check_outside(options.policy, options.settings.seed); !usable.ok()) {
    return fail_cluster(path + ": " + usable.error().message, kExitConfig);
  }
  auto hosts = hosts_of_cluster(io, file, options.say);
  if (!hosts.ok()) return fail_cluster(path + ": " + hosts.error().message, kExitConfig);
  const std::string config_directory = std::filesystem::absolute(path).parent_path().string();
  FirstJobs first_jobs(io, file.jobs, *directory, config_directory, options.say);
  options.find_broken = find_broken;
  options.begun = [&](const cluster_core::Cluster& begun) { first_jobs.submit(begun.jobs()); };
  bool is_broken = false;
  options.broken = [&](const std::string&) {
    is_broken = true;
    io.stop();
  };
  cluster::ClusterProcess process(io, std::move(options), std::move(*hosts));
  if (const Status opened = process.open(); !opened.ok()) {
    const ErrorCode code = opened.error().code;
    return fail_cluster(opened.error().message, code == ErrorCode::kUnavailable ? kExitUnavailable
                                                : code == ErrorCode::kInvalid   ? kExitNoInput
                                                                                : kExitCannotCreate);
  }
  std::cerr << "elastictrain cluster: " << file.name << " shares its hosts by " << policy_name << " in " << *directory
            << "; give it jobs: elastictrain submit" << std::endl;
  asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&](asio::error_code, int) {
    process.stop();
    io.stop();
  });
  io.run();
  if (is_broken) {
    return fail_cluster(
        "ended by the internal error; its runs train on. Start it again: it goes on from its journal, " + *directory +
            "/journal.jsonl. Please report the error with it",
        kExitInternal);
  }
  std::cerr << "elastictrain cluster: ended; its runs train on\n";
  return kExitSuccess;
}

Command make_cluster(Invocation& invocation) {
  const auto path = std::make_shared<std::string>();
  const auto choose = [&invocation, path]() -> Status {
    if (path->empty()) return wrong_usage("name the cluster's file: elastictrain cluster cluster.toml");
    invocation.action = [path] { return run_cluster(*path, cluster::first_broken_rule); };
    return {};
  };
  return {"cluster",     "share hosts among many runs: queue, limits, policy, leases",
          kGroupCluster, {word("file", "FILE", "the cluster's settings", *path)},
          choose,        kClusterDetails};
}

}  // namespace elastictrain::cli
