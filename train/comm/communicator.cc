#include "train/comm/communicator.h"

namespace elastictrain::comm {
namespace {

Error no_device_memory() {
  return {ErrorCode::kInvalid, "this data plane reaches host memory only; choose the device before start()"};
}

}  // namespace

// If both ends sent first, both might wait for buffer space.
Status Communicator::exchange(std::span<const std::byte> sent, std::span<std::byte> received, std::uint32_t peer) {
  const bool begins = rank() < peer;
  if (auto status = begins ? send(sent, peer) : receive(received, peer); !status) return status;
  return begins ? receive(received, peer) : send(sent, peer);
}

Status Communicator::all_reduce_device(const DeviceReduce&, ReduceStats*) {
  return no_device_memory();
}

Status Communicator::start_device_transfers(std::span<const DeviceTransfer> transfers, void*) {
  return transfers.empty() ? Status() : Status(no_device_memory());
}

Status Communicator::finish_device_transfers() {
  return {};
}

void Communicator::limit_operations(std::chrono::milliseconds) {}

Status Communicator::check_peers() {
  return {};
}

}  // namespace elastictrain::comm
