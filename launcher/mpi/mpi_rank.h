// Purpose: the data that an MPI launch (mpirun, mpiexec, srun with a PMI) gives each of its processes, read from the
// environment as pure functions: its rank, and its place among those on the same machine.
//
// Thread: any. Errors: none; a variable that is not a number is ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace elastictrain::launcher {

struct MpiPlace {
  std::uint32_t rank = 0;
  std::optional<std::uint32_t> local_rank;  // among the ranks of this machine
  std::uint32_t local_ranks = 0;            // number of ranks on this machine; 0: not known
  std::vector<int> descriptors;             // through which MPI_Init communicates with the launch
  bool ends_with_launch = false;            // the MPI library ends a process whose launch has ended
};

// `environment`: "NAME=value".
std::optional<MpiPlace> mpi_place(const std::vector<std::string>& environment);

// Returns whether this is one of several processes of an MPI launch.
bool is_one_of_many(const std::vector<std::string>& environment);

// Removes the variables that make a process a rank, for programs that are not ranks: a framework would take the program
// for an MPI job, and several of them for one rank.
std::vector<std::string> without_mpi_place(std::vector<std::string> environment);

}  // namespace elastictrain::launcher
