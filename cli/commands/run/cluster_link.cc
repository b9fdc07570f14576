#include "cli/commands/run/cluster_link.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cli/commands/cluster_client.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kJobVariable = "ELASTICTRAIN_JOB";  // set by `submit`, and by the cluster for runs that it starts

std::string job_file(const std::string& directory) {
  return directory + "/cluster-job";
}

// A fresh run of a name that was used before is another job.
std::optional<std::string> known_job(const ClusterLinkInputs& inputs) {
  if (const char* given = std::getenv(kJobVariable); given != nullptr && *given != '\0') return given;
  std::string job;
  if (inputs.start == RunStart::kFresh || !std::getline(std::ifstream(job_file(inputs.directory)), job)) return {};
  return job.empty() ? std::nullopt : std::optional(job);
}

}  // namespace

std::uint32_t most_slots(const JobConfig& job, const core::RunSettings& settings) {
  const std::uint64_t most = job.most_slots > 0 ? job.most_slots : settings.max_workers;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(most, settings.min_workers, std::max(settings.min_workers, settings.max_workers)));
}

void keep_job(const std::string& directory, const std::string& job) {
  if (!job.empty()) std::ofstream(job_file(directory)) << job << "\n";
}

Result<std::unique_ptr<cluster::RunLink>> make_cluster_link(asio::io_context& io, const RunConfig& config,
                                                            const RunPlan& plan, ClusterLinkInputs inputs) {
  const auto directory = directory_of_cluster(config.cluster);
  if (!directory.ok()) return directory.error();
  cluster::Join join;
  join.job = known_job(inputs);
  join.run = plan.settings.run_name;
  join.directory = inputs.directory;
  join.pid = ::getpid();
  join.min = plan.settings.min_workers;
  join.max = most_slots(config.job, plan.settings);
  join.start = std::min(join.max, plan.settings.start_workers);
  if (config.policy.samples_total > 0 && config.policy.samples_total <= cluster::kMaxCount) {
    join.samples_total = config.policy.samples_total;
  }
  join.suspends_in_memory = true;
  join.moves = true;
  join.suspends_to_file = plan.settings.has_checkpoints;
  join.priority = static_cast<std::int32_t>(config.job.priority);
  if (config.job.deadline_s > 0) join.deadline_s = config.job.deadline_s;
  join.demand = {config.job.one_host, static_cast<std::uint32_t>(config.job.most_hosts), config.job.hosts};
  cluster::RunLinkSettings settings;
  settings.socket = std::filesystem::absolute(*directory).string() + "/" + cluster::kClusterSocketName;
  settings.cluster = config.cluster;
  settings.timeout = std::chrono::milliseconds(config.timeouts.cluster_ms);
  // The connection does not exist before it is made, and is asked by itself for what it knows.
  const auto made = std::make_shared<cluster::RunLink*>(nullptr);
  const auto describe = [made, join, lease_seen = std::move(inputs.lease_seen)] {
    cluster::Join now = join;
    if (*made == nullptr) return now;
    if (!(*made)->job().empty()) now.job = (*made)->job();
    now.holds = (*made)->holds().slots();
    now.lease = lease_seen();
    if (const auto& lease = (*made)->lease()) now.lease = std::max(now.lease, lease->version);
    return now;
  };
  auto link = std::make_unique<cluster::RunLink>(io, std::move(settings), describe, std::move(inputs.say));
  *made = link.get();
  return link;
}

}  // namespace elastictrain::cli
