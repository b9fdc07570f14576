#include "cli/commands/cluster_hosts.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cli/commands/helper_demand.h"
#include "cli/config/load.h"
#include "cli/config/text.h"
#include "launcher/batch/allocation.h"
#include "launcher/elastic_hosts.h"
#include "launcher/host_sources.h"
#include "launcher/hostfile.h"

namespace elastictrain::cli {
namespace {

using What = jobs::HelpersChanged::What;
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

jobs::HelpersChanged change_of(const launcher::HostsChange& told) {
  jobs::HelpersChanged change{what_of(told.what), told.slots, told.text, {}};
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

}  // namespace elastictrain::cli
