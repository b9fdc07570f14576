// Purpose: lets the communicator of a generation reach the worker's device: NCCL where every member has it, sums staged
// through the host elsewhere.
//
// Ownership: takes the host's communicator. Thread: the builder's. Failure: as the communicators say; kUnavailable
// where NCCL is asked for and missing.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/message.h"
#include "train/comm/cancel_token.h"
#include "train/comm/communicator.h"
#include "train/comm/nccl/nccl_communicator.h"
#include "train/device/device.h"
#include "train/session/environment.h"

namespace elastictrain::session {

struct DeviceBuild {
  std::shared_ptr<device::Device> device;
  std::string job;
  std::chrono::steady_clock::time_point deadline;
  Backend backend = Backend::kAuto;
  comm::NcclBuild nccl_build = comm::NcclBuild::kBackground;
  comm::RunningGeneration running;
  std::function<comm::StepClock()> step_clock;
  std::function<void(const std::string&)> on_wedged;
};

// The ranks of `before` that have no place in `plan`, whose members are some of them in the same order; none where that
// is not so, or nobody leaves.
std::vector<std::uint32_t> ranks_left_out(const std::vector<WorkerId>& before, const protocol::GenerationPlan& plan);

Result<std::unique_ptr<comm::Communicator>> reach_device(std::unique_ptr<comm::Communicator> host, DeviceBuild build,
                                                         const comm::CancelToken& cancel);

}  // namespace elastictrain::session
