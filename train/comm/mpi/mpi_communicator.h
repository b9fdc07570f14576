// Purpose: builds the communicator of a generation whose members are ranks of one MPI launch: shared memory within a
// host, MPI's messages between hosts.
//
// As cpu_communicator.h says; state still reaches joiners over connections of their own. `members`: the peers' ranks of
// the launch. The world outlives what is built.
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
