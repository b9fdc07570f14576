// Purpose: the data plane of one generation whose buckets lie in GPUs' memory. Device memory goes over NCCL; host
// memory, neighbours' messages and the news that a peer is gone go over the host plane of the same generation, which it
// owns.
//
// NCCL's messages say nothing of a peer that dies on the same host, so whoever waits for the device looks at the host
// plane's connections, too. A call returns once its result is there or the device has let go of the caller's memory.
//
// Ownership and threads: as Communicator says. Failure: also kPeerLost from the host plane, kTimeout at the operation
// timeout. An abort that NCCL does not finish in time is told through NcclOptions::on_wedged: the process has to go.
// Source: reference notes on NCCL 2.28, in train/comm/nccl/README.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/comm/cancel_token.h"
#include "train/comm/communicator.h"
#include "train/comm/nccl/unique_id_helper.h"
#include "train/device/device.h"

namespace elastictrain::comm {

// kBackground: NCCL builds while the generation before trains. kAtSwap: with the first bucket, when nothing else runs
// on the devices; what a build falls back to that made training stand still. kShrink: with the first bucket out of the
// generation before, where all ranks can and some leave; after a loss at once; kBackground otherwise.
enum class NcclBuild : std::uint8_t { kBackground, kAtSwap, kShrink };

struct StepClock {
  std::uint64_t steps = 0;              // done so far
  std::chrono::microseconds normal{0};  // time of a step; 0: not known yet
};

struct NcclOptions {
  std::shared_ptr<device::Device> device;
  std::string job;
  Deadline deadline;                               // of the build
  std::chrono::milliseconds operation_timeout{0};  // 0: a call waits until it is done or aborted
  std::vector<std::string> id_helper = unique_id_command();
  NcclBuild build = NcclBuild::kBackground;
  // Of the generation that trains during the build; any thread. Empty: none trains.
  std::function<StepClock()> step_clock;
  std::chrono::milliseconds at_swap_limit{60'000};
  std::chrono::milliseconds shrink_limit{10'000};  // then all build afresh
  std::chrono::milliseconds abort_deadline{3'000};
  std::function<void(const std::string&)>
      on_wedged;                         // the process has to be replaced; any thread, at most once a generation
  std::uint32_t several_ids_from = 256;  // ranks
};

// The generation before, where all ranks of the new one sit in it in the same order and some do not go on.
struct RunningGeneration {
  std::shared_ptr<Communicator> communicator;  // of any kind
  std::vector<std::uint32_t> left_out;         // its ranks that have no place in the new one
};

// Takes the host plane of the new generation; all its ranks call it. With one rank nothing of NCCL is needed.
Result<std::unique_ptr<Communicator>> build_nccl_communicator(std::unique_ptr<Communicator> host_plane,
                                                              const NcclOptions& options, const CancelToken& cancel,
                                                              const RunningGeneration& running = {});

}  // namespace elastictrain::comm
