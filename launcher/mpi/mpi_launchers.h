// Purpose: creates the launchers that start agents by MPI's own command. The pool is in mpi_pool.cc.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent_program.h"
#include "launcher/host_source.h"
#include "launcher/launcher.h"
#include "launcher/mpi/mpi_tool.h"

// Creates the launchers that start agents by MPI's own command. One process per host is a launch method like
// any other; a pool is one launch of one agent per rank, whose workers may use MPI.
//
// Results arrive on the io_context's thread through the sink, exactly one LaunchEnded per launch(), in all cases.

namespace elastictrain::launcher {

struct MpiLaunchOptions {
  MpiTool tool;
  MpiSurroundings around;
  std::uint32_t parallelism = 32;
  std::uint64_t start_timeout_ms = 30'000;
};

// The binary is at the same path on all hosts.
std::unique_ptr<Launcher> make_mpi_launcher(asio::io_context& io, const MpiLaunchOptions& options, LaunchSink sink,
                                            const AgentProgram& program = this_program());

struct MpiPoolOptions {
  MpiTool tool;
  MpiSurroundings around;
  std::vector<Host> machines;
  std::vector<Host> ranks;  // see pool_ranks()
  std::string directory;    // for the start messages; visible to all hosts
  std::uint64_t start_timeout_ms = 30'000;
  // The command whose exit status shows whether a machine answers; none: it is assumed to answer.
  std::function<std::vector<std::string>(const std::string& machine)> question = {};
};

// The pool's ranks as hosts with one slot each: "mpi0", "mpi1", …; "mpi0@node1" for several machines, if it is known
// which rank is where.
std::vector<Host> pool_ranks(const std::vector<Host>& machines, bool machines_are_known = true);

// Starts when the agents of all ranks have been requested, because MPI needs all of them at once, or when no further
// request arrives; without machines that do not answer, because one would end the whole launch. A rank that is
// requested while others run is refused: MPI accepts no new process. When all are lost, a new pool starts with those
// that are requested then.
std::unique_ptr<Launcher> make_mpi_pool(asio::io_context& io, MpiPoolOptions options, LaunchSink sink,
                                        AgentProgram program = this_program());

}  // namespace elastictrain::launcher
