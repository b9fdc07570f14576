// Purpose: the command that starts MPI processes (mpirun, mpiexec, srun with a PMI): which kind it is, and the words it
// is told. The words are pure functions; only ask_mpi_tool() runs something.
//
// Thread: any; ask_mpi_tool() blocks its caller, at most for its deadline. Failure: names the command, and what it
// said.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/host_source.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

enum class MpiKind : std::uint8_t { kOpenMpi, kHydra, kSrun };

struct MpiTool {
  std::vector<std::string> command;  // the user's words, or "mpirun"
  MpiKind kind = MpiKind::kOpenMpi;
  std::string version;  // as it calls itself
};

// Runs the command with --version.
Result<MpiTool> ask_mpi_tool(const std::vector<std::string>& command,
                             std::chrono::milliseconds deadline = std::chrono::seconds(10));

// From what it printed; the name and the number out of it.
Result<MpiTool> recognize_mpi_tool(const std::vector<std::string>& command, const std::string& printed);

// What else decides on the words.
struct MpiSurroundings {
  bool is_root = false;       // Open MPI asks for a word of consent
  bool shares_cores = false;  // more ranks than cores somewhere: they must yield to each other
  // Of hosts that MPI's command reaches over ssh: ssh with its options; empty: as that command does by itself.
  std::vector<std::string> ssh = {};
  std::string own_address = {};  // where they reach this machine; empty: by the name that it has
  std::string interface = {};    // for training and control; empty: MPI's choice
};

// One process on one host.
std::vector<std::string> mpi_start_command(const MpiTool& tool, const MpiSurroundings& around, const std::string& host,
                                           const std::vector<std::string>& program);

// One process for every slot of the hosts, in their order, so that the loss of one is no end of the others where this
// MPI can do that.
std::vector<std::string> mpi_pool_command(const MpiTool& tool, const MpiSurroundings& around,
                                          const std::vector<Host>& hosts, const std::vector<std::string>& program);

// What becomes of a pool that loses a worker's process, for people.
std::string lost_rank_text(MpiKind kind);

}  // namespace elastictrain::launcher
