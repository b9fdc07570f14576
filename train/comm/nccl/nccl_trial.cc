#include "train/comm/nccl/nccl_trial.h"

#include <thread>
#include <utility>

#include "train/comm/nccl/bucket_kernels.h"
#include "train/comm/nccl/nccl_comm.h"
#include "train/comm/nccl/unique_id_helper.h"

namespace elastictrain::comm {
namespace {

constexpr std::chrono::milliseconds kTrialPause{1};

}  // namespace

Status try_nccl(std::shared_ptr<device::Device> device, const std::vector<std::string>& id_helper,
                std::chrono::milliseconds limit) {
  const auto nccl = NcclLibrary::get();
  if (!nccl) return nccl.error();
  if (const auto kernels = BucketKernels::create(device); !kernels) return kernels.error();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto helper = UniqueIdHelper::start(id_helper, 1, CancelToken(), deadline);
  if (!helper) return helper.error();
  const auto comm = NcclComm::begin(**nccl, std::move(device), {.ids = helper->ids(), .name = "trial"});
  if (!comm) return comm.error();
  NcclCode state = (*comm)->state();
  while (state == kNcclInProgress && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kTrialPause);
    state = (*comm)->state();
  }
  Status outcome;
  if (state == kNcclInProgress) {
    outcome = Error{ErrorCode::kTimeout, "NCCL did not build a communicator of one rank in time"};
  } else if (state != kNcclSuccess) {
    outcome = (*comm)->error(state, "build trial");
  }
  (*comm)->abort();
  (*comm)->await_end();
  return outcome;
}

}  // namespace elastictrain::comm
