// Purpose: tries whether NCCL works on this device with the driver that is installed, by a communicator of one rank. It
// also loads NCCL's kernels and ours, for which a later build would wait until the device is idle.
//
// Thread: any. Failure: why it does not work; kUnavailable without NCCL or NVRTC, kTimeout at the limit.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/device/device.h"

namespace elastictrain::comm {

Status try_nccl(std::shared_ptr<device::Device> device, const std::vector<std::string>& id_helper,
                std::chrono::milliseconds limit);

}  // namespace elastictrain::comm
