// Purpose: communicators that pass nothing between workers by themselves: a world of one, and device memory that is
// staged through pinned memory for a communicator of host memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "train/comm/communicator.h"
#include "train/comm/device_interfaces.h"
#include "train/device/device.h"
#include "train/device/device_memory.h"
#include "train/device/stream.h"

// The communicator of a world of one, so that a program without a launcher, and a run with one worker, take
// the same path through the session as any other.
//
// Ownership, thread: as comm::Communicator. Failure: only after abort().

namespace elastictrain::session {

class SoloCommunicator final : public comm::Communicator {
 public:
  explicit SoloCommunicator(Generation generation) : generation_(generation) {}

  std::uint32_t rank() const override { return 0; }
  std::uint32_t world_size() const override { return 1; }
  Generation generation() const override { return generation_; }
  comm::Capabilities capabilities() const override;

  Status all_reduce(std::span<float> data, const comm::ReduceOptions& options, comm::ReduceStats* stats) override;
  Status broadcast(std::span<std::byte> data, std::uint32_t root) override;
  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  bool reaches(std::uint32_t) const override { return false; }
  Status send(std::span<const std::byte> data, std::uint32_t to) override;
  Status receive(std::span<std::byte> data, std::uint32_t from) override;
  Status barrier() override;
  Status check_self() const override;
  void abort() noexcept override { aborted_.store(true); }
  comm::Traffic traffic() const override { return {}; }
  std::vector<comm::PeerFigures> peers() const override { return {}; }

 private:
  Generation generation_;
  std::atomic<bool> aborted_{false};
};

// Device memory for a data plane that reaches host memory only: sums are staged through pinned memory. It is
// used in a world of one, which sums nothing, and in runs without NCCL (ELASTICTRAIN_BACKEND=cpu). State reaches
// joiners through the host.
//
// Ownership: the inner communicator. Thread, failure: as comm::Communicator. A device error is kInvalid, because no
// other worker can repair it.

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
