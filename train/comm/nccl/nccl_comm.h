// Purpose: one communicator of NCCL with the rules that NCCL leaves to its user: one thread inside it at a time, calls
// that never block, an abort on a thread that may be given up, and an orderly end only when nobody was lost and none
// was shrunk from it.
//
// Ownership: shared by the communicator that uses it, the one that is shrunk from it and the threads that end it.
// Thread: any; stop(), abort() and close() return at once. Failure: as NcclLibrary::error; kAborted once it is being
// ended.
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
#include "train/comm/nccl/turn.h"
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
  // stop() leaves one that another can be shrunk from, where the library can do that.
  bool may_be_parent = false;
};

class NcclComm : public std::enable_shared_from_this<NcclComm> {
 public:
  // Begins to build; state() says when it is done. What it reports before is kNcclInProgress.
  static Result<std::shared_ptr<NcclComm>> begin(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                 NcclInit init);
  // The same out of `parent`, in which nothing runs any more, without the ranks `left_out`. Once for each parent, whose
  // only end is an abort from here on.
  static Result<std::shared_ptr<NcclComm>> begin_shrunk(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                        NcclInit init, const std::shared_ptr<NcclComm>& parent,
                                                        std::vector<int> left_out);
  ~NcclComm();

  device::CudaStream stream() const { return stream_.handle(); }

  // kNcclSuccess, kNcclInProgress, or the error that it will keep.
  NcclCode state();
  // Calls `work` as the only thread inside; kNcclInProgress counts as begun.
  Status call(const std::string& doing, const std::function<NcclCode(NcclHandle)>& work);
  Error error(NcclCode code, const std::string& doing);

  // Whether another can be shrunk from it: while it is in use, as long as nothing runs in it; after stop(), if that
  // left it so and no network error sticks to it. Waits for a stop that is under way.
  enum class Parenthood : std::uint8_t { kNone, kInUse, kStopped };
  Parenthood parenthood();

  // Ends what runs, here; peers are not told. abort() frees it as well.
  void stop() noexcept;
  void abort() noexcept;
  // After one of them: true when the device has let go, false at the abort's deadline.
  bool await_end();
  // After await_end(), for what the caller has put behind NCCL's work, which may still read the caller's memory.
  void drain() { (void)stream_.synchronize(); }
  // Waits in the background until all ranks have said goodbye over `host_plane`, then closes in good order; aborts if
  // they do not, or one of them has been shrunk from it. Takes the host plane with it.
  void close(std::unique_ptr<Communicator> host_plane) noexcept;

 private:
  enum class Stage : std::uint8_t { kOpen, kStopping, kStopped, kEnding };
  // What NCCL reads and writes while it shrinks; must be there until it is done with the parent.
  struct Shrinking {
    std::string name;
    std::vector<int> left_out;
    NcclHandle made = nullptr;
  };

  NcclComm(const NcclLibrary& nccl, std::shared_ptr<device::Device> device, NcclInit init);
  static Result<std::shared_ptr<NcclComm>> unmade(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                  NcclInit init);
  Status shrink(const std::shared_ptr<Shrinking>& shrinking);
  // With the lock held: what the parent says until this one is made.
  NcclCode take_from_parent();
  void abort_parent();

  // Does `work` on a thread that may be given up; after the abort's deadline calls `on_limit` once.
  void end(const std::function<void()>& work, std::chrono::milliseconds limit, const std::function<void()>& on_limit);
  void end_in_time(const std::function<void()>& work);
  void revoke_inside();
  void abort_inside();
  bool all_may_finalize(Communicator& host_plane);
  bool finalize_and_destroy();
  void check_device();
  void report(const std::string& what);

  const NcclLibrary& nccl_;
  const std::shared_ptr<device::Device> device_;
  const NcclInit init_;
  device::Stream stream_;
  Turn inside_;
  NcclHandle handle_ = nullptr;
  std::shared_ptr<NcclComm> parent_;      // until this one is made
  std::shared_ptr<Shrinking> shrinking_;  // this one from its parent
  std::shared_ptr<Shrinking> shrunk_;     // another one from this one
  std::atomic<Stage> stage_{Stage::kOpen};
  std::atomic<bool> ready_{false};
  std::atomic<bool> was_parent_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  int unfinished_ = 0;  // ends of this one that are under way
};

// Threads that end communicators and are not done yet; a session waits for them a little before its process exits.
int unfinished_nccl_ends();
bool await_nccl_ends(std::chrono::milliseconds limit);

}  // namespace elastictrain::comm
