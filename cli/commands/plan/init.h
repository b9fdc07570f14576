// Purpose: `elastictrain init`: writes a commented configuration for the cores, GPUs and batch job that it finds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// The configuration that `init` writes, from what it found. Pure.

namespace elastictrain::cli {

struct Found {
  std::size_t cores = 1;
  std::size_t gpus = 0;
  std::string batch_system;                                  // "slurm"; empty: not in a batch job
  std::vector<std::pair<std::string, std::uint64_t>> hosts;  // of the job, with their slots
};

// "2 cores", "4 GPUs", "2 hosts of Slurm with 8 slots".
std::string describe_found(const Found& found);

// `program` may be empty.
std::string init_text(const Found& found, const std::vector<std::string>& program);

}  // namespace elastictrain::cli
