// Purpose: the data plane of one generation whose buckets are in GPU memory, and detection of a build that stalls
// the training beside it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/communicator.h"
#include "train/comm/nccl/unique_id_helper.h"
#include "train/comm/socket.h"
#include "train/device/device.h"

// The data plane of one generation whose buckets are in GPU memory. Device memory uses NCCL. Host memory,
// messages to neighbours and the detection of lost peers use the host plane of the same generation, which it owns.
//
// NCCL does not report a peer that exits on the same host, so a thread that waits for the device also checks the host
// plane's connections. A call returns once its result is complete or the device no longer uses the caller's memory.
//
// Ownership and threads: as Communicator. Failure: also kPeerLost from the host plane, kTimeout at the operation
// timeout. A call whose communicator ends late returns when the device is free of it. Source:
// reference notes on NCCL 2.28, in train/comm/nccl/README.md.

namespace elastictrain::comm {

// kBackground: NCCL builds while the previous generation trains. kAtSwap: with the first bucket, when no other work
// runs on the devices; also the fallback of a build that stalled training. kShrink: with the first bucket from the
// previous generation, if all ranks can and some leave; after a loss at once; otherwise as kBackground.
enum class NcclBuild : std::uint8_t { kBackground, kAtSwap, kShrink };

struct StepClock {
  std::uint64_t steps = 0;              // done so far
  std::chrono::microseconds normal{0};  // time of a step; 0: not known yet
  bool pauses = false;                  // no step is expected, in an evaluation for example
};

struct NcclOptions {
  std::shared_ptr<device::Device> device;
  std::string job;
  Deadline deadline;                               // of the build
  std::chrono::milliseconds operation_timeout{0};  // 0: a call waits until it is done or aborted
  std::vector<std::string> id_helper = unique_id_command();
  NcclBuild build = NcclBuild::kBackground;
  // Progress of the generation that trains during the build; called on any thread. Empty: none trains.
  std::function<StepClock()> step_clock;
  std::chrono::milliseconds at_swap_limit{60'000};
  std::chrono::milliseconds shrink_limit{10'000};  // then all ranks build from scratch
  std::chrono::milliseconds abort_deadline{3'000};
  // The device is of no use to this process any more, which must be replaced; any thread.
  std::function<void(const std::string&)> on_broken;
  std::uint32_t several_ids_from = 256;  // ranks
  bool exchanges_narrow = true;          // see DeviceSums; equal on all ranks
};

// The previous generation, if all ranks of the new one are in it in the same order and some of its ranks leave.
struct RunningGeneration {
  std::shared_ptr<Communicator> communicator;  // of any kind
  std::vector<std::uint32_t> left_out;         // its ranks that have no place in the new one
};

// Takes the host plane of the new generation. All its ranks call it. With one rank NCCL is not needed.
Result<std::unique_ptr<Communicator>> build_nccl_communicator(std::unique_ptr<Communicator> host_plane,
                                                              const NcclOptions& options, const CancelToken& cancel,
                                                              const RunningGeneration& running = {});

// Detects that the training generation stalls while the next one is built next to it, as it does when both
// wait for the same device (NCCL issues 195, 750, 1082). Thread: one. Failure: none. A stall is the time of k normal
// steps without a step, but at least the floor. A pause is none.

class StallWatch {
 public:
  bool stands_still(const StepClock& clock, std::chrono::steady_clock::time_point now) {
    if (!last_ || clock.steps != steps_ || clock.pauses) {
      last_ = now;
      steps_ = clock.steps;
    }
    if (clock.normal.count() == 0) return false;
    return now - *last_ > std::max<std::chrono::microseconds>(kNormalSteps * clock.normal, kFloor);
  }

 private:
  static constexpr int kNormalSteps = 10;
  static constexpr std::chrono::milliseconds kFloor{500};
  std::uint64_t steps_ = 0;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace elastictrain::comm
