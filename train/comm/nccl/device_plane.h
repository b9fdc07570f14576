// Purpose: NCCL's side of a generation, from the unique id to the last bucket: builds it at once or at the swap, and
// waits for the device without ever being stuck.
//
// Ownership: the communicator's. Thread: the communicator's; request_abort() from any. Failure: as Communicator says.
#pragma once

#include <atomic>
#include <memory>

#include "train/comm/nccl/nccl_comm.h"
#include "train/comm/nccl/nccl_communicator.h"
#include "train/device/event.h"

namespace elastictrain::comm {

class DevicePlane {
 public:
  DevicePlane(const NcclLibrary& nccl, NcclInit init, NcclOptions options, Communicator& host_plane);
  ~DevicePlane();

  // Begins to build; after drop() it may be begun again with other ids. ready() does not wait.
  Status begin();
  Result<bool> ready();
  // For a build that is put off: the helper lives until then.
  void hold(UniqueIdHelper helper) { helper_ = std::move(helper); }
  void use_ids(std::vector<NcclUniqueId> ids) { init_.ids = std::move(ids); }

  // Builds now what was put off.
  Status ensure_built();
  Status begin_all_reduce(const DeviceReduce& reduce, Deadline deadline);
  Status begin_transfers(std::span<const DeviceTransfer> transfers, Deadline deadline);
  device::CudaStream stream() const { return comm_->stream(); }
  // Until the mark is reached, a peer is lost, the operation times out or it is aborted.
  Status wait(const device::Event& mark, Deadline deadline);

  void request_abort() noexcept;
  bool aborted() const { return aborted_; }
  // Ends NCCL's work on this device, so that the caller's memory is its own again.
  void drop();
  // In good order, in the background.
  void close(std::unique_ptr<Communicator> host_plane);

 private:
  Status await_ready(Deadline deadline, const std::string& doing);
  Status check_wait(Deadline deadline);
  Status check_end();
  Status check_plane();

  const NcclLibrary& nccl_;
  NcclInit init_;
  const NcclOptions options_;
  Communicator& host_plane_;
  UniqueIdHelper helper_;
  std::mutex mutex_;  // of comm_, which abort() reads
  std::shared_ptr<NcclComm> comm_;
  std::atomic<bool> aborted_{false};
  Deadline lost_since_ = Deadline::max();
};

}  // namespace elastictrain::comm
