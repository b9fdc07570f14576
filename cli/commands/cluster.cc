// `elastictrain cluster`: shares hosts among many runs.
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands/cluster_client.h"
#include "cli/commands/cluster_hosts.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/first_jobs.h"
#include "cli/commands/run_cluster.h"
#include "cli/commands/run_probe.h"
#include "cli/config/cluster_file.h"
#include "cli/config/load.h"
#include "launcher/build_id.h"
#include "supervisor/cluster/cluster_process.h"

namespace elastictrain::cli {
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

jobs::Limits limits_from(const LimitsOfFile& given, jobs::Limits limits) {
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
jobs::Limits limits_of(const ClusterFile& file, const jobs::Owner& owner) {
  jobs::Limits limits;
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
  jobs::Settings& settings = options.settings;
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
  settings.limits = [file](const jobs::Owner& owner) { return limits_of(file, owner); };
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
  options.begun = [&](const jobs::Cluster& begun) { first_jobs.submit(begun.jobs()); };
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
