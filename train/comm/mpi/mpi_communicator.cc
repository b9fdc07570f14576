#include "train/comm/mpi/mpi_communicator.h"

#include <algorithm>

#include "train/comm/mpi/mpi_rail.h"

namespace elastictrain::comm {

Result<BuildResult> build_mpi_communicator(const BuildSpec& spec, MpiWorld& world, Ranks members,
                                           DataListener& listener, const CancelToken& cancel,
                                           std::span<const std::uint32_t> state_transfer_from,
                                           std::span<const std::uint32_t> state_transfer_to) {
  const bool all_there = std::all_of(members.begin(), members.end(), [&](auto rank) { return rank < world.size(); });
  if (!all_there || members.size() != spec.peers.size()) {
    return Error{ErrorCode::kInvalid, "a member of generation " + std::to_string(spec.generation) +
                                          " is not a rank of this MPI launch of " + std::to_string(world.size())};
  }
  // If the library takes one caller at a time, calls take turns. Each call is short, so plans can still be built during
  // training.
  const RailKind rails{world.library().threads_may_call() ? "mpi" : "mpi, one thread at a time",
                       [&](const Layout& layout, OpControl& control) {
                         return std::make_unique<MpiRail>(world, spec, layout, members, control);
                       }};
  return build_hybrid_communicator(spec, rails, listener, cancel, state_transfer_from, state_transfer_to);
}

}  // namespace elastictrain::comm
