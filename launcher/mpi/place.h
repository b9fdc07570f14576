// Purpose: what an MPI launch (mpirun, mpiexec, srun with a PMI) says to each of its processes, read from the
// environment as pure functions: which rank one is, and which of those on the same machine.
//
// Thread: any. Failure: none; a variable that is no number says nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace elastictrain::launcher {

struct MpiPlace {
  std::uint32_t rank = 0;
  std::optional<std::uint32_t> local_rank;  // among the ranks of this machine
  std::uint32_t local_ranks = 0;            // so many are on this machine; 0: not known
  std::vector<int> descriptors;             // through which MPI_Init speaks with the launch
  bool ends_with_launch = false;            // the MPI itself ends a process whose launch has ended
};

// `environment`: "NAME=value".
std::optional<MpiPlace> mpi_place(const std::vector<std::string>& environment);

// Whether this is one of several processes of an MPI launch.
bool is_one_of_many(const std::vector<std::string>& environment);

// Without what makes a process a rank, for programs that are none: a framework would take it for an MPI job, and
// several of them for one rank.
std::vector<std::string> without_mpi_place(std::vector<std::string> environment);

}  // namespace elastictrain::launcher
