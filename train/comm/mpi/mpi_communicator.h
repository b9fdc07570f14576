// Purpose: builds the communicator of a generation whose members are ranks of one MPI launch: shared memory within a
// host, MPI's messages between hosts.
//
// As in cpu_communicator.h; state still reaches joiners over separate connections. `members`: the peers' ranks in the
// launch. The world outlives the communicator.
#pragma once

#include <span>

#include "train/comm/cpu_communicator.h"
#include "train/comm/mpi/mpi_world.h"

namespace elastictrain::comm {

Result<BuildResult> build_mpi_communicator(const BuildSpec& spec, MpiWorld& world, Ranks members,
                                           DataListener& listener, const CancelToken& cancel,
                                           std::span<const std::uint32_t> state_transfer_from = {},
                                           std::span<const std::uint32_t> state_transfer_to = {});

}  // namespace elastictrain::comm
