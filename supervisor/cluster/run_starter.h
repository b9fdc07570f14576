// Purpose: the runs that a cluster process starts for its own user: each a process of its own, in a session of its own,
// that goes on when the cluster process ends.
//
// Ownership: owns what watches the processes, not the processes. Thread: the io_context's.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/process/process.h"
#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cluster {

class RunStarter {
 public:
  using Ended = std::function<void(const cluster_core::ProcessEnded&)>;

  RunStarter(asio::io_context& io, std::string cluster_directory, Ended ended)
      : io_(io), cluster_directory_(std::move(cluster_directory)), ended_(std::move(ended)) {}
  ~RunStarter();
  RunStarter(const RunStarter&) = delete;
  RunStarter& operator=(const RunStarter&) = delete;

  // Calls `ended` later in any case.
  void start(const cluster_core::Job& job, bool resume);
  // To the process that was started for the job, or, if this process did not start it, to the one that has joined, as
  // long as that lives.
  void signal(const cluster_core::Job& job, int number);

 private:
  struct Child;
  void read_error(const std::shared_ptr<Child>& child);
  void report(const std::shared_ptr<Child>& child);

  asio::io_context& io_;
  std::string cluster_directory_;
  Ended ended_;
  std::map<cluster_core::JobId, std::shared_ptr<Child>> children_;  // the newest of each job
};

}  // namespace elastictrain::cluster
