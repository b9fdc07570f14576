#include "launcher/mpi/mpi_rank.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "launcher/batch/hostlist.h"
#include "launcher/process/process.h"
#include "launcher/text.h"

namespace elastictrain::launcher {
namespace {

// Variables of a rank itself; settings of users for their MPI (OMPI_MCA_btl, for example) are not among them.
constexpr std::string_view kPlacePrefixes[] = {
    "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE=", "OMPI_APP_CTX_",   "OMPI_MCA_ess", "OMPI_MCA_orte_", "PMIX_", "PMI_",
    "MPI_LOCALRANKID=", "MPI_LOCALNRANKS=",    "HYDI_CONTROL_FD="};

std::optional<std::uint32_t> read_number(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() <= name.size() || entry[name.size()] != '=' || !entry.starts_with(name)) continue;
    if (const auto number = parse_number<std::uint32_t>(std::string_view(entry).substr(name.size() + 1))) return number;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> first_number(const std::vector<std::string>& environment,
                                          std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto number = read_number(environment, name)) return number;
  }
  return std::nullopt;
}

// Slurm gives the number on each node: "4(x2),1".
std::uint32_t count_local_ranks(const std::vector<std::string>& environment) {
  const auto given = first_number(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  if (given) return *given;
  const auto counts = expand_counts(value_of(environment, "SLURM_STEP_TASKS_PER_NODE").value_or(""));
  const auto node = read_number(environment, "SLURM_NODEID");
  return counts && node && *node < counts->size() ? (*counts)[*node] : 0;
}

}  // namespace

std::optional<MpiPlace> mpi_place(const std::vector<std::string>& environment) {
  const auto rank = first_number(environment, {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"});
  if (!rank) return std::nullopt;
  MpiPlace place;
  place.rank = *rank;
  place.local_rank = first_number(environment, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"});
  place.local_ranks = count_local_ranks(environment);
  // Open MPI does this to every client of PMIx.
  place.ends_with_launch = first_number(environment, {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}).has_value();
  if (const auto descriptor = read_number(environment, "PMI_FD")) {
    place.descriptors.push_back(static_cast<int>(*descriptor));
  }
  return place;
}

bool is_one_of_many(const std::vector<std::string>& environment) {
  return first_number(environment, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}).value_or(1) > 1;
}

std::vector<std::string> without_mpi_place(std::vector<std::string> environment) {
  std::erase_if(environment, [](const std::string& entry) {
    return std::any_of(std::begin(kPlacePrefixes), std::end(kPlacePrefixes),
                       [&entry](std::string_view prefix) { return entry.starts_with(prefix); });
  });
  return environment;
}

}  // namespace elastictrain::launcher
