// Purpose: shared by the tests of NCCL's defects: faults of its stand-in, the stand-in's counters, builds and their
// options.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/contract/comm/world.h"
#include "tests/standin/standin_nccl.h"
#include "train/comm/nccl/nccl_comm.h"
#include "train/comm/nccl/nccl_communicator.h"

namespace elastictrain::comm::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Enables faults of the stand-in during its lifetime.
class Faults {
 public:
  explicit Faults(const char* list) { standin_nccl_faults(list); }
  ~Faults() {
    standin_nccl_faults("none");
    standin_cuda_fault(0);
    await_nccl_ends(seconds(20));
  }
};

inline StandinNcclCounters counters() {
  StandinNcclCounters now{};
  standin_nccl_counters(&now);
  return now;
}

inline NcclOptions options_until(milliseconds limit) {
  NcclOptions options;
  options.device = *device::Device::open(device_of_this_thread());
  options.job = "traps";
  options.deadline = steady_clock::now() + limit;
  options.abort_deadline = milliseconds(200);
  return options;
}

// The results of the build at each rank, every rank on a thread of its own.
struct BuildOutcome {
  std::unique_ptr<Communicator> communicator;
  Status status;
};

inline std::vector<BuildOutcome> build_all(World& world, Generation generation,
                                           const std::function<NcclOptions(std::uint32_t)>& options,
                                           const CancelToken& cancel = CancelToken()) {
  std::vector<BuildOutcome> outcomes(world.size());
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      use_device_of(rank);
      CancelToken never;
      auto host_plane = build_cpu_communicator(world.spec(rank, generation), world.listener(rank), never);
      if (!host_plane) return void(outcomes[rank].status = host_plane.error());
      auto built = build_nccl_communicator(std::move(host_plane->communicator), options(rank), cancel);
      if (built) outcomes[rank].communicator = std::move(*built);
      if (!built) outcomes[rank].status = built.error();
    });
  }
  for (auto& rank : ranks) rank.join();
  return outcomes;
}

}  // namespace elastictrain::comm::testing
