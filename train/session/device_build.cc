#include "train/session/device_build.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "train/comm/nccl/build_guard.h"
#include "train/comm/nccl/nccl_library.h"
#include "train/device/kernel_module.h"
#include "train/session/staged_communicator.h"

namespace elastictrain::session {
namespace {

// Whether all members have it. A member without it would make other calls than the rest.
Result<bool> everyone_has_nccl(comm::Communicator& host, const DeviceBuild& build, const comm::CancelToken& cancel) {
  const comm::BuildGuard guard(host, cancel, build.deadline);
  const std::byte mine{build.nccl_works && comm::NcclLibrary::get().ok() ? std::uint8_t{1} : std::uint8_t{0}};
  std::vector<std::byte> all(host.world_size());
  if (auto status = host.all_gather({&mine, 1}, all); !status) return status.error();
  return std::all_of(all.begin(), all.end(), [](std::byte has) { return has == std::byte{1}; });
}

// A worker alone needs no NCCL, only kernels: what is measured of its gradient stays on the device.
bool sums_alone(const comm::Communicator& host, const DeviceBuild& build) {
  return host.world_size() == 1 && device::KernelModule::get(build.device, device::kCommunicatorKernels).ok();
}

}  // namespace

std::vector<std::uint32_t> ranks_left_out(const std::vector<WorkerId>& before, const protocol::GenerationPlan& plan) {
  std::vector<std::uint32_t> left_out;
  std::size_t next = 0;
  for (std::uint32_t rank = 0; rank < before.size(); ++rank) {
    const bool stays = next < plan.members.size() && plan.members[next].worker == before[rank];
    if (stays)
      ++next;
    else
      left_out.push_back(rank);
  }
  return next == plan.members.size() ? left_out : std::vector<std::uint32_t>();
}

Result<std::unique_ptr<comm::Communicator>> reach_device(std::unique_ptr<comm::Communicator> host, DeviceBuild build,
                                                         const comm::CancelToken& cancel) {
  const bool may_use_nccl = build.backend == Backend::kAuto || build.backend == Backend::kNccl;
  bool uses_nccl = may_use_nccl && (host->world_size() > 1 || sums_alone(*host, build));
  if (uses_nccl && host->world_size() > 1 && build.backend == Backend::kAuto) {
    const auto agreed = everyone_has_nccl(*host, build, cancel);
    if (!agreed) return agreed.error();
    uses_nccl = *agreed;
  }
  if (!uses_nccl) return StagedCommunicator::over(std::move(host), std::move(build.device));
  comm::NcclOptions options;
  options.device = std::move(build.device);
  options.job = std::move(build.job);
  options.deadline = build.deadline;
  options.build = build.nccl_build;
  options.step_clock = std::move(build.step_clock);
  options.on_wedged = std::move(build.on_wedged);
  return comm::build_nccl_communicator(std::move(host), options, cancel, build.running);
}

}  // namespace elastictrain::session
