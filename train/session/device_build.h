// Purpose: adds the worker's device to the communicator of a generation: NCCL if every member has it, otherwise sums
// that are staged through host memory.
//
// Ownership: takes the host's communicator. Thread: the builder's. Failure: as the communicators; kUnavailable if NCCL
// is requested and missing.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/plan_messages.h"
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
  bool nccl_works = true;  // here, as a trial has shown
  comm::NcclBuild nccl_build = comm::NcclBuild::kBackground;
  bool exchanges_narrow = true;  // if all members want it
  comm::RunningGeneration running;
  std::function<comm::StepClock()> step_clock;
  std::function<void(const std::string&)> on_wedged;
};

// The ranks of `before` that have no place in `plan`, if the members of `plan` are a subset of `before` in the same
// order. Empty if they are not, or if no rank leaves.
std::vector<std::uint32_t> ranks_left_out(const std::vector<WorkerId>& before, const protocol::GenerationPlan& plan);

// Whether gradients of 16 bits that each rank sends to each other are fewer bytes than a sum in float32 along rings.
// Between hosts a ring carries them once for all ranks of a host, an exchange once for each.
bool pays_to_exchange_narrow(const protocol::GenerationPlan& plan);

Result<std::unique_ptr<comm::Communicator>> reach_device(std::unique_ptr<comm::Communicator> host, DeviceBuild build,
                                                         const comm::CancelToken& cancel);

}  // namespace elastictrain::session
