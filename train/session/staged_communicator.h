// Purpose: device memory for a data plane that reaches host memory only: sums are staged through pinned memory. It is
// used in a world of one, which sums nothing, and in runs without NCCL (ELASTICTRAIN_BACKEND=cpu). State reaches
// joiners through the host.
//
// Ownership: the inner communicator. Thread, failure: as comm::Communicator. A device error is kInvalid, because no
// other worker can repair it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/comm/device_interfaces.h"
#include "train/comm/over_communicator.h"
#include "train/device/device.h"
#include "train/device/pinned_memory.h"
#include "train/device/stream.h"

namespace elastictrain::session {

class StagedCommunicator final : public comm::OverCommunicator, public comm::DeviceSums {
 public:
  static Result<std::unique_ptr<comm::Communicator>> over(std::unique_ptr<comm::Communicator> host,
                                                          std::shared_ptr<device::Device> device);

  comm::DeviceSums* device_sums() override { return this; }
  bool queues_sums() const override { return false; }
  Status start_sum(const comm::DeviceReduce& reduce) override;
  Status finish_sums(comm::ReduceStats* stats) override;

 private:
  StagedCommunicator(std::unique_ptr<comm::Communicator> host, std::shared_ptr<device::Device> device,
                     device::Stream stream)
      : OverCommunicator(std::move(host)), device_(std::move(device)), stream_(std::move(stream)) {}
  Status fetch(const comm::DeviceReduce& reduce);
  Status fetch(const comm::DeviceReduce& reduce, const void* gradient, void* into, std::size_t bytes) const;
  Status put_back(const comm::DeviceReduce& reduce);
  Status put_back(const void* from, void* gradient, std::size_t bytes) const;

  const std::shared_ptr<device::Device> device_;
  const device::Stream stream_;
  device::PinnedMemory staged_;
  std::vector<std::uint16_t> narrow_;
  comm::ReduceStats stats_;  // of the sums since the last finish_sums()
};

}  // namespace elastictrain::session
