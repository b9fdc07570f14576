// Purpose: NCCL's side of a generation, from the unique id to the last bucket: builds it at once or at the swap, afresh
// or out of the one before, and waits for the device without ever being stuck.
//
// Ownership: the communicator's. Thread: the communicator's; request_abort() from any. Failure: as Communicator says.
#pragma once

#include <atomic>
#include <memory>

#include "train/comm/nccl/build_rounds.h"
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

  // Out of `parent`, which nobody else ends before that is done: by all ranks together, over the host plane. False: it
  // failed on one of them, and all have ended it and the parent.
  Result<bool> shrink(const std::shared_ptr<NcclComm>& parent, const std::vector<std::uint32_t>& left_out);
  // The same when what was put off is built.
  void shrink_later(std::shared_ptr<NcclComm> parent, std::vector<std::uint32_t> left_out) {
    parent_ = std::move(parent);
    left_out_ = std::move(left_out);
  }

  // Builds now what was put off.
  Status ensure_built();
  Status begin_all_reduce(const DeviceReduce& reduce, Deadline deadline);
  Status begin_transfers(std::span<const DeviceTransfer> transfers, Deadline deadline);
  device::CudaStream stream() const { return comm_->stream(); }
  // Missing where nothing is built. Any thread.
  std::shared_ptr<NcclComm> comm();
  // Until the mark is reached, a peer is lost, the operation times out or it is aborted.
  Status wait(const device::Event& mark, Deadline deadline);

  void request_abort() noexcept;
  bool aborted() const { return aborted_; }
  // Ends NCCL's work on this device.
  void stop();
  // After stop(), once what the caller's stream holds is done: until the caller's memory is its own again. Does not
  // wait for what could not be stopped.
  void drain();
  // For a build that is given up; another one can be begun.
  void drop();
  // In good order, in the background.
  void close(std::unique_ptr<Communicator> host_plane);

 private:
  BuildState look(Deadline deadline);
  Status await_ready(Deadline deadline, const std::string& doing);
  Status check_wait(Deadline deadline);
  Status check_end();
  Status check_plane();

  const NcclLibrary& nccl_;
  NcclInit init_;
  const NcclOptions options_;
  Communicator& host_plane_;
  UniqueIdHelper helper_;
  std::shared_ptr<NcclComm> parent_;  // until this one is built
  std::vector<std::uint32_t> left_out_;
  std::mutex mutex_;  // of comm_, which abort() reads
  std::shared_ptr<NcclComm> comm_;
  std::atomic<bool> aborted_{false};
  Deadline lost_since_ = Deadline::max();
};

}  // namespace elastictrain::comm
