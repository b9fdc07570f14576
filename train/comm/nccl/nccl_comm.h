// Purpose: one communicator of NCCL with the rules that NCCL leaves to its user: one thread inside it at a time, calls
// that never block, an abort on a thread that may be given up, and an orderly end only when nobody was lost.
//
// Ownership: shared by the communicator that uses it and the threads that end it. Thread: any; abort() and close()
// return at once. Failure: as NcclLibrary::error; kAborted once it is being ended.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/communicator.h"
#include "train/comm/nccl/nccl_library.h"
#include "train/device/stream.h"

namespace elastictrain::comm {

struct NcclInit {
  std::vector<NcclUniqueId> ids;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::string name;  // of the communicator, in NCCL's own messages
  // An abort that takes longer has failed: the process cannot be saved.
  std::chrono::milliseconds abort_deadline{3000};
  // Told once, on a thread of its own, that this process has to be replaced, and why.
  std::function<void(const std::string&)> on_wedged;
};

class NcclComm : public std::enable_shared_from_this<NcclComm> {
 public:
  // Begins to build; state() says when it is done. What it reports before is kNcclInProgress.
  static Result<std::shared_ptr<NcclComm>> begin(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                 NcclInit init);
  ~NcclComm();

  device::CudaStream stream() const { return stream_.handle(); }

  // kNcclSuccess, kNcclInProgress, or the error that it will keep.
  NcclCode state();
  // Calls `work` as the only thread inside; kNcclInProgress counts as begun.
  Status call(const std::string& doing, const std::function<NcclCode(NcclHandle)>& work);
  Error error(NcclCode code, const std::string& doing);

  // Ends what runs, here; peers are not told.
  void abort() noexcept;
  // After an abort: true when it is done, false at the abort's deadline.
  bool await_end();
  // Waits in the background until all ranks have said goodbye over `host_plane`, then closes in good order; aborts if
  // they do not. Takes the host plane with it.
  void close(std::unique_ptr<Communicator> host_plane) noexcept;

 private:
  NcclComm(const NcclLibrary& nccl, std::shared_ptr<device::Device> device, NcclInit init);

  // Does `work` on a thread that may be given up; after `limit` calls `on_limit` once.
  void end(const std::function<void()>& work, std::chrono::milliseconds limit, const std::function<void()>& on_limit);
  bool has_ended(std::chrono::milliseconds limit);
  void abort_inside();
  bool finalize_and_destroy();
  void check_device();
  void report(const std::string& what);

  const NcclLibrary& nccl_;
  const std::shared_ptr<device::Device> device_;
  const NcclInit init_;
  device::Stream stream_;
  NcclHandle handle_ = nullptr;
  std::timed_mutex inside_;
  std::atomic<bool> ending_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

// Threads that end communicators and are not done yet; a session waits for them a little before its process exits.
int unfinished_nccl_ends();
bool await_nccl_ends(std::chrono::milliseconds limit);

}  // namespace elastictrain::comm
