// Purpose: the NCCL part of a generation, from the unique id to the last bucket. It builds NCCL at once or at the swap,
// from scratch or by a shrink of the previous generation, and waits for the device without blocking forever.
//
// Ownership: the communicator's. Thread: the communicator's; request_abort() from any. Failure: see Communicator.
#pragma once

#include <atomic>
#include <memory>

#include "train/comm/device_interfaces.h"
#include "train/comm/nccl/build_agreement.h"
#include "train/comm/nccl/nccl_comm.h"
#include "train/comm/nccl/nccl_communicator.h"
#include "train/device/stream.h"

namespace elastictrain::comm {

class DevicePlane {
 public:
  DevicePlane(const NcclLibrary& nccl, NcclInit init, NcclOptions options, Communicator& host_plane);
  ~DevicePlane();

  // Starts a build. After drop() another one can be started with other ids. ready() does not wait.
  Status begin();
  Result<bool> ready();
  // For a build that is postponed: the helper must run until then.
  void hold(UniqueIdHelper helper) { helper_ = std::move(helper); }
  void use_ids(std::vector<NcclUniqueId> ids) { init_.ids = std::move(ids); }

  // Shrinks `parent`, which must not be ended elsewhere before this is done. All ranks do it together, over the host
  // plane. False: it failed on one of them, and all have ended it and the parent.
  Result<bool> shrink(const std::shared_ptr<NcclComm>& parent, const std::vector<std::uint32_t>& left_out);
  // The same for a postponed build.
  void shrink_later(std::shared_ptr<NcclComm> parent, std::vector<std::uint32_t> left_out) {
    parent_ = std::move(parent);
    left_out_ = std::move(left_out);
  }

  // Runs a postponed build now.
  Status ensure_built();
  Status begin_all_reduce(const DeviceReduce& reduce, Deadline deadline);
  Status begin_transfers(std::span<const DeviceTransfer> transfers, Deadline deadline);
  device::CudaStream stream() const { return comm_->stream(); }
  // Null if nothing is built. Any thread.
  std::shared_ptr<NcclComm> comm();
  // Waits until the mark is reached, a peer is lost, the operation times out or it is aborted.
  Status wait(const device::Event& mark, Deadline deadline);

  void request_abort() noexcept;
  bool aborted() const { return aborted_; }
  // Ends NCCL's work on this device.
  void stop();
  // Call it after stop(). Waits for the work in the caller's stream, after which the device no longer uses the caller's
  // memory. Does not wait for work that could not be stopped.
  void drain();
  // Ends a build that is given up. Another one can be started.
  void drop();
  // Closes cleanly, in the background.
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
  std::mutex mutex_;  // guards comm_, which abort() reads
  std::shared_ptr<NcclComm> comm_;
  std::atomic<bool> aborted_{false};
  Deadline lost_since_ = Deadline::max();
};

}  // namespace elastictrain::comm
