#include "cli/commands/dry_run.h"

#include <algorithm>

#include "cli/commands/mpi_plan.h"
#include "cli/output/protection.h"
#include "cli/output/shell_text.h"
#include "cli/output/table.h"
#include "supervisor/core/pure/text.h"
#include "supervisor/worker_environment.h"

namespace elastictrain::cli {
namespace {

struct Place {
  std::string host;
  std::uint32_t node = 0;
  std::uint32_t slot = 0;
};

// Hosts are filled in order, slot by slot.
std::vector<Place> place_workers(const RunPlan& plan) {
  std::vector<Place> places;
  for (std::uint32_t node = 0; node < plan.hosts.size(); ++node) {
    for (std::uint32_t slot = 0; slot < plan.hosts[node].slots; ++slot) {
      if (places.size() < plan.settings.start_workers) places.push_back({plan.hosts[node].name, node, slot});
    }
  }
  return places;
}

std::uint32_t workers_on(const std::vector<Place>& places, std::uint32_t node) {
  return static_cast<std::uint32_t>(
      std::count_if(places.begin(), places.end(), [node](const Place& p) { return p.node == node; }));
}

// One command starts all ranks of an MPI pool.
std::string render_planned_hosts(const RunPlan& plan, const launcher::Launcher& launcher) {
  Table hosts({{"host"}, {"slots", Align::kRight}, {"agent"}});
  const bool pool = !plan.mpi_hosts.empty();
  for (const launcher::Host& host : plan.hosts) {
    const std::string agent = pool ? "by the command above" : shell_text(launcher.command_line(host.name));
    hosts.add_row({host.name, std::to_string(host.slots), agent});
  }
  return hosts.render();
}

std::string render_places(const std::vector<Place>& places) {
  Table table({{"rank", Align::kRight}, {"host"}, {"slot", Align::kRight}});
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    table.add_row({std::to_string(rank), places[rank].host, std::to_string(places[rank].slot)});
  }
  return table.render();
}

std::string render_environment(const RunPlan& plan, const std::vector<Place>& places) {
  core::SpawnWorker first;
  first.worker.value = 1;
  if (!places.empty()) first.slots = plan.hosts[places.front().node].slots;
  first.world_size = static_cast<std::uint32_t>(places.size());
  first.local_world_size = places.empty() ? 1 : workers_on(places, places.front().node);
  WorkerSurroundings around;
  around.run_name = plan.settings.run_name;
  around.node_count = places.empty() ? 1 : places.back().node + 1;
  around.master_address = plan.advertise_addresses.front();
  around.max_restarts = plan.settings.failures.max_crashes;
  around.user_environment = plan.program.environment;
  std::string text;
  for (const std::string& variable : worker_environment(first, around)) {
    const bool chosen_later = variable.starts_with("MASTER_");
    text += "  " + (chosen_later ? variable.substr(0, variable.find('=')) + "=(chosen at the start)" : variable) + "\n";
  }
  return text;
}

}  // namespace

std::string render_dry_run(const RunConfig& config, const RunPlan& plan, const launcher::Launcher& launcher) {
  const core::RunSettings& settings = plan.settings;
  const std::vector<Place> places = place_workers(plan);
  std::string text =
      "run " + settings.run_name + ": " + core::counted(settings.start_workers, "worker") + " to start with (" +
      std::to_string(settings.min_workers) + " to " + std::to_string(settings.max_workers) + "), batch " +
      (settings.batch_of_program ? "as the program says" : std::to_string(settings.batch.per_worker) + " per worker") +
      "\n";
  text += describe_protection(config.network) + "\n";
  if (plan.allocation) text += describe_allocation(config, plan) + "\n";
  text += describe_mpi(plan, launcher);
  text += "\nhosts\n";
  text += render_planned_hosts(plan, launcher);
  if (!config.hosts.discover.empty()) text += "(from " + config.hosts.discover + ", which --dry-run does not run)\n";
  text += "\nranks, when every host answers\n" + render_places(places);
  text += "\nprogram\n  " + shell_text(plan.program.argv) + "\n";
  if (!plan.program.working_directory.empty()) text += "  in " + plan.program.working_directory + "\n";
  return text + "\nenvironment of rank 0\n" + render_environment(plan, places);
}

}  // namespace elastictrain::cli
