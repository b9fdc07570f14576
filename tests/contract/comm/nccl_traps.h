// Purpose: shared by the tests of NCCL's defects: faults of its stand-in, the stand-in's counters, and build options.
#pragma once

#include <chrono>

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

}  // namespace elastictrain::comm::testing
