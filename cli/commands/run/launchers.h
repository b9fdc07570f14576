// Purpose: launcher and host source of a configuration, with MPI's command where that starts the agents.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/run/run_plan.h"
#include "launcher/host_source.h"
#include "launcher/launcher.h"
#include "launcher/rendezvous/rendezvous.h"

// Several ways to reach hosts in one run: this machine by fork and exec, the hosts of an allocation by the
// batch system's tool, the others by ssh.
// Thread: as Launcher. Errors: those of the launcher in charge of the host.

namespace elastictrain::cli {

class MixedLauncher : public launcher::Launcher {
 public:
  struct Way {
    std::function<bool(const std::string& host)> serves;
    std::unique_ptr<Launcher> launcher;
  };

  // The first way that serves a host is in charge of it; the last one serves every host.
  explicit MixedLauncher(std::vector<Way> ways) : ways_(std::move(ways)) {}

  launcher::Capabilities capabilities() const override;
  void launch(launcher::AgentSpec spec) override;
  void forget(AgentId agent) override;
  std::vector<std::string> command_line(const std::string& host) const override;

 private:
  Launcher& in_charge_of(const std::string& host) const;

  std::vector<Way> ways_;
  std::map<AgentId, Launcher*> owners_;
};

// A run's use of MPI: agents started by its command, one per host or, where MPI carries the sums, one per rank
// of a pool; and the text that describes it to users.
//
// settle_mpi() asks MPI's command for its version. Thread: any. Errors: returned as values that say what to do.

bool is_mpi_pool(const RunConfig& config);

// A run starts MPI itself. Under another mpirun each rank would start a run of its own.
Status check_outside_mpi(const std::vector<std::pair<std::string, std::string>>& surroundings);

// Replaces plan.hosts by a pool's ranks. Does nothing without launcher.kind = "mpi".
Status settle_mpi(const RunConfig& config, RunPlan& plan);

// Requires a plan with an mpi_tool.
Result<std::unique_ptr<launcher::Launcher>> make_mpi(asio::io_context& io, const RunConfig& config, const RunPlan& plan,
                                                     launcher::LaunchSink sink);

// Text for users: the MPI in use and, for a pool, its command and the effect of losing a worker. Empty without MPI.
std::string describe_mpi(const RunPlan& plan, const launcher::Launcher& launcher);

// Makes the launcher and the host source of a configuration.

// `rendezvous`: reaches the hosts that were offered to it; may be null.
// The batch system's job that a host belongs to, if it is not this process's own job; else empty.
using JobOfHost = std::function<std::string(const std::string& host)>;

Result<std::unique_ptr<launcher::Launcher>> make_launcher(
    asio::io_context& io, const RunConfig& config, const RunPlan& plan, launcher::LaunchSink sink,
    JobOfHost job_of = [](const std::string&) { return std::string(); }, launcher::Rendezvous* rendezvous = nullptr);

std::unique_ptr<launcher::HostSource> make_host_source(asio::io_context& io, const RunConfig& config,
                                                       const RunPlan& plan);

}  // namespace elastictrain::cli
