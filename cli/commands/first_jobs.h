// Purpose: submits the jobs that a cluster's file names ([[job]]), one after another, each by `elastictrain submit`, so
// that they are checked and refused as everybody's jobs are.
//
// Ownership: owns the process of the submission under way; it ends with this object. Thread: the io_context's. Errors:
// the command's own text on standard error, and a sentence through `say`; the next job is submitted all the same.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/config/cluster_file.h"
#include "launcher/process/process.h"
#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cli {

class FirstJobs {
 public:
  // `directory`: of the cluster. `config_directory`: in which the jobs' configs are looked for, and run.
  FirstJobs(asio::io_context& io, std::vector<JobOfFile> jobs, std::string directory, std::string config_directory,
            std::function<void(const std::string&)> say);

  // Leaves out those whose name a job has, or had, if it is still known.
  void submit(const std::map<jobs::JobId, jobs::Job>& known);

 private:
  void submit_next();
  std::vector<std::string> command(const JobOfFile& job) const;

  asio::io_context& io_;
  std::vector<JobOfFile> left_;  // the next one last
  std::string directory_, config_directory_;
  std::function<void(const std::string&)> say_;
  std::unique_ptr<launcher::Process> process_;
};

}  // namespace elastictrain::cli
