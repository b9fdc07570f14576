// Purpose: `elastictrain cluster`: the process of a cluster from its file to its end, with the source of its hosts,
// the jobs that its file names, and a look at runs that have lost their connection.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/config/cluster_file.h"
#include "launcher/expansion.h"
#include "launcher/process/process.h"
#include "supervisor/cluster/cluster_process.h"
#include "supervisor/cluster/core/cluster.h"
#include "supervisor/cluster/core/event.h"
#include "supervisor/protocol/result.h"

// Determines the state of a run from its directory, for a cluster that has lost its connection.
// Reads the run's directory if the run is this user's. What another user names as one is never opened: kUnknown.
// Thread: any; waits for a live run's socket at most a moment. Errors: kUnknown.

namespace elastictrain::cli {

cluster_core::Probed probe_run(const cluster_core::Job& job);

// A cluster's demand for slots, as the source of helper jobs takes it. Pure.

inline launcher::HostDemand demand_of(const cluster_core::SlotDemand& given) {
  launcher::HostDemand demand;
  demand.needed_slots = given.needed;
  demand.can_vacate = true;
  for (const auto& host : given.hosts) demand.hosts.push_back({host.name, host.slots, host.used, host.slots > 0});
  return demand;
}

// The source of a cluster's hosts, as its file says: a list, a file, or the batch job that it is in; and
// helper jobs that bring more.
//
// Ownership: the caller owns the source. Errors: kInvalid, what is wrong with the file's hosts or the batch job.

// `say` is told what helper jobs do.
Result<cluster::MakeHosts> hosts_of_cluster(asio::io_context& io, const ClusterFile& file,
                                            std::function<void(const std::string&)> say);

// Submits the jobs that a cluster's file names ([[job]]), one after another, each by `elastictrain submit`, so
// that they are checked and refused as everybody's jobs are.
//
// Ownership: owns the process of the submission under way; it ends with this object. Thread: the io_context's. Errors:
// the command's own text on standard error, and a sentence through `say`; the next job is submitted all the same.

class FirstJobs {
 public:
  // `directory`: of the cluster. `config_directory`: in which the jobs' configs are looked for, and run.
  FirstJobs(asio::io_context& io, std::vector<JobOfFile> jobs, std::string directory, std::string config_directory,
            std::function<void(const std::string&)> say);

  // Leaves out those whose name a job has, or had, if it is still known.
  void submit(const std::map<cluster_core::JobId, cluster_core::Job>& known);

 private:
  void submit_next();
  std::vector<std::string> command(const JobOfFile& job) const;

  asio::io_context& io_;
  std::vector<JobOfFile> left_;  // the next one last
  std::string directory_, config_directory_;
  std::function<void(const std::string&)> say_;
  std::unique_ptr<launcher::Process> process_;
};

// A cluster process from its file to its end. Blocking. Thread: any one, one at a time.
// Errors: the exit status; the reason is on standard error.

// `find_broken`: the first rule that does not hold, which ends it with 70.
int run_cluster(const std::string& path, const cluster::FindBroken& find_broken);

}  // namespace elastictrain::cli
