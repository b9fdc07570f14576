// Purpose: construction of the communicators of coming generations in the background, with the worker's device where
// all members have one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "supervisor/protocol/plan_messages.h"
#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"
#include "train/comm/cpu_communicator.h"
#include "train/comm/nccl/nccl_communicator.h"
#include "train/comm/socket.h"
#include "train/device/device.h"
#include "train/session/environment.h"

// Adds the worker's device to the communicator of a generation: NCCL if every member has it, otherwise sums
// that are staged through host memory.
//
// Ownership: takes the host's communicator. Thread: the builder's. Failure: as the communicators; kUnavailable if NCCL
// is requested and missing.

namespace elastictrain::session {

struct DeviceBuild {
  std::shared_ptr<device::Device> device;
  std::string job;
  std::chrono::steady_clock::time_point deadline;
  Backend backend = Backend::kAuto;
  bool nccl_works = true;  // here, as a trial has shown
  comm::NcclBuild nccl_build = comm::NcclBuild::kBackground;
  bool exchanges_narrow = true;  // if all members want it
  // Ranks that join others, who keep their NCCL: where it does not work on one of these, the build fails.
  std::vector<std::uint32_t> newcomers;
  std::function<void(const std::string&)> on_refused;  // this rank is such a newcomer; the reason
  // Memory that a step with other ranks needs. Where it is missing the build fails.
  std::function<Status()> make_room;
  comm::RunningGeneration running;
  std::function<comm::StepClock()> step_clock;
  std::function<void(const std::string&)> on_broken;
};

// The ranks of `before` that have no place in `plan`, if the members of `plan` are a subset of `before` in the same
// order. Empty if they are not, or if no rank leaves.
std::vector<std::uint32_t> ranks_left_out(const std::vector<WorkerId>& before, const protocol::GenerationPlan& plan);

// Whether gradients of 16 bits that each rank sends to each other are fewer bytes than a sum in float32 along rings.
// Between hosts a ring carries them once for all ranks of a host, an exchange once for each.
bool pays_to_exchange_narrow(const protocol::GenerationPlan& plan);

Result<std::unique_ptr<comm::Communicator>> reach_device(std::unique_ptr<comm::Communicator> host, DeviceBuild build,
                                                         const comm::CancelToken& cancel);

// Builds the communicators of coming generations in the background while the current one trains, and closes
// those of past ones. The worker machine decides what is built when (worker_machine.h).
//
// Ownership: the control plane. Thread: all calls from any thread; one builder thread of its own, created with the
// first build. Failure: `done` receives the reason of a failed build. It is not called for one that was dropped before
// it was ready; one that is dropped at that moment may still be told.

class CommunicatorBuilder {
 public:
  using Build = std::function<Result<comm::BuildResult>(const protocol::GenerationPlan&, std::uint32_t rank,
                                                        const comm::CancelToken&)>;
  // Called on the builder thread, which holds no lock.
  using Done = std::function<void(Generation, const Status&)>;

  CommunicatorBuilder(Build build, Done done);
  ~CommunicatorBuilder();

  void start(protocol::GenerationPlan plan, std::uint32_t rank);
  // Cancels the build, or closes its result.
  void drop(Generation generation);
  std::optional<comm::BuildResult> take(Generation generation);
  // Closes the communicator of a past generation in the background.
  void retire(std::shared_ptr<comm::Communicator> communicator);

 private:
  struct Entry {
    protocol::GenerationPlan plan;
    std::uint32_t rank = 0;
    comm::CancelToken cancel;
    bool begun = false;
    std::optional<comm::BuildResult> result;
  };

  void run();
  std::shared_ptr<Entry> next_to_build() const;
  void build(const std::shared_ptr<Entry>& entry, std::unique_lock<std::mutex>& lock);

  const Build build_;
  const Done done_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Generation, std::shared_ptr<Entry>> entries_;
  std::vector<std::shared_ptr<void>> retired_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace elastictrain::session
