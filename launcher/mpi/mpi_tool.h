// Purpose: the command that starts MPI processes (mpirun, mpiexec, srun with a PMI): which kind it is, and its
// arguments. The arguments are built by pure functions; only ask_mpi_tool() runs a command.
//
// Thread: any; ask_mpi_tool() blocks its caller, at most for its deadline. Errors: the command, and its output.
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
  std::vector<std::string> command;  // the user's command line, or "mpirun"
  MpiKind kind = MpiKind::kOpenMpi;
  std::string version;  // as the command prints it
};

// Runs the command with --version.
Result<MpiTool> ask_mpi_tool(const std::vector<std::string>& command,
                             std::chrono::milliseconds deadline = std::chrono::seconds(10));

// From its output: the name and the version number in it.
Result<MpiTool> recognize_mpi_tool(const std::vector<std::string>& command, const std::string& printed);

// The conditions that the arguments depend on.
struct MpiSurroundings {
  bool is_root = false;       // Open MPI requires explicit consent
  bool shares_cores = false;  // more ranks than cores on some host: they must yield to each other
  // For hosts that MPI's command reaches over ssh: ssh with its options; empty: the command's own default.
  std::vector<std::string> ssh = {};
  std::string own_address = {};  // where they reach this machine; empty: by its name
  std::string interface = {};    // for training and control; empty: MPI chooses
};

// One process on one host.
std::vector<std::string> mpi_start_command(const MpiTool& tool, const MpiSurroundings& around, const std::string& host,
                                           const std::vector<std::string>& program);

// One process for every slot of the hosts, in their order, started so that the loss of one does not end the others if
// this MPI supports that.
std::vector<std::string> mpi_pool_command(const MpiTool& tool, const MpiSurroundings& around,
                                          const std::vector<Host>& hosts, const std::vector<std::string>& program);

// What happens to a pool that loses a worker's process, as text for people.
std::string lost_rank_text(MpiKind kind);

}  // namespace elastictrain::launcher
