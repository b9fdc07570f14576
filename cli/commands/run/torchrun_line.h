// Purpose: torchrun's options as a command line of `elastictrain run`. Pure: no file or process is touched.
//
// Source: the argument parser of torch/distributed/run.py, PyTorch 2.5 to 2.9. Errors: an option that cannot be
// followed, with what to use in its place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// The values as torchrun's parser reads them, with its defaults.
struct TorchrunOptions {
  std::string nnodes = "1:1";
  std::string nproc_per_node = "1";
  std::string per_replica = "1";
  std::string rdzv_id = "none";
  std::string node_rank;
  std::string rdzv_endpoint;
  std::string rdzv_conf;
  std::string master_addr;
  std::string master_port;
  std::string max_restarts = "0";
  std::string shutdown_timeout;
  std::string role = "default";
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string local_ranks_filter;
  std::string label_template;
  std::string numa_binding;
  std::string ignored;  // of options that have nothing to do here
  bool ignored_flag = false;
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  std::vector<std::string> passed_on;  // arguments of `run`
};

struct TorchrunSurroundings {
  std::uint32_t processors = 1;
  std::uint32_t gpus = 0;
  bool names_hosts = false;     // -H or -f is among `passed_on`
  bool has_allocation = false;  // of a batch system
  std::string python = "python3";
  std::string log_directory;  // if output is redirected and no directory is named
};

struct RunLine {
  std::vector<std::string> arguments;  // of `run`
  std::vector<std::string> program;
};

// `script`: the program and its arguments.
Result<RunLine> run_line_of(const TorchrunOptions& options, const TorchrunSurroundings& around,
                            const std::vector<std::string>& script);

}  // namespace elastictrain::cli
