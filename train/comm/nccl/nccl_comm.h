// Purpose: one NCCL communicator with the rules that NCCL leaves to its user, and the lock that admits one thread.
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
#include "train/comm/nccl/nccl_communicator.h"
#include "train/comm/nccl/nccl_library.h"
#include "train/device/stream.h"

// A lock for one thread at a time with a bounded wait, for std::lock_guard and std::unique_lock. It replaces
// std::timed_mutex because ThreadSanitizer does not see its timed lock and reports false races. Ownership: its holder.
// Thread: any. Failure: false at the limit.

namespace elastictrain::comm {

class Turn {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [this] { return !taken_; });
    taken_ = true;
  }
  bool try_lock_for(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (!free_.wait_for(lock, limit, [this] { return !taken_; })) return false;
    taken_ = true;
    return true;
  }
  void unlock() {
    const std::lock_guard lock(mutex_);
    taken_ = false;
    free_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

// One NCCL communicator with the rules that NCCL leaves to its user: one thread inside it at a time, calls
// that never block, an abort on a thread that may be abandoned, and a clean end only if no rank was lost and no
// communicator was shrunk from it.
//
// An abort may take long, or never return: it joins NCCL's network threads, and may wait for other ranks of the host
// (NCCL issues 863, 1013, 1777). What matters is whether the device still works for the communicator, whose operations
// use the caller's memory. If its stream is idle, the end is left to its thread, and the process goes on with what that
// holds. If not, the caller waits.
//
// Ownership: shared by the communicator that uses it, the one that is shrunk from it and the threads that end it.
// Thread: any; stop(), abort() and close() return at once. Failure: as NcclLibrary::error; kAborted once it is being
// ended.

struct NcclInit {
  std::vector<NcclUniqueId> ids;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::string name;  // of the communicator, in NCCL's own messages
  // An end that takes longer is late. It frees memory, for which the device first does the caller's work, so the time
  // begins when the caller's streams have done theirs, and it is at least some steps, and twice what the build took.
  std::chrono::milliseconds abort_deadline{3000};
  std::function<StepClock()> step_clock;  // empty: no step time is known
  // The device is of no use to this process any more, which must be replaced. On a thread of its own, with the reason.
  std::function<void(const std::string&)> on_broken;
};

class NcclComm : public std::enable_shared_from_this<NcclComm> {
 public:
  // Starts a build; state() reports when it is done. Until then it reports kNcclInProgress.
  static Result<std::shared_ptr<NcclComm>> begin(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                 NcclInit init);
  // The same by a shrink of `parent`, in which no operation runs anymore, without the ranks `left_out`. Allowed once
  // for each parent, which can only be aborted afterwards.
  static Result<std::shared_ptr<NcclComm>> begin_shrunk(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                        NcclInit init, const std::shared_ptr<NcclComm>& parent,
                                                        std::vector<int> left_out);
  ~NcclComm();

  device::CudaStream stream() const { return stream_.handle(); }
  // Work of the caller's for which an end would have to wait is in this stream, which exists until the next call.
  void used_by(std::optional<device::CudaStream> caller);

  // kNcclSuccess, kNcclInProgress, or an error, which then stays.
  NcclCode state();
  // Calls `work` as the only thread inside; kNcclInProgress counts as started.
  Status call(const std::string& doing, const std::function<NcclCode(NcclHandle)>& work);
  Error error(NcclCode code, const std::string& doing);

  // Whether another communicator can be shrunk from this one: while it is in use, as long as no operation runs in it;
  // after stop(), if stop() left it usable and it has no network error. Waits for a stop in progress.
  enum class Parenthood : std::uint8_t { kNone, kInUse, kStopped };
  Parenthood parenthood();
  // By stop(), which is done, and has left the communicator there.
  bool is_stopped() const { return stage_ == Stage::kStopped; }

  // Ends the running operations on this rank; peers are not notified. abort() also frees the communicator, of which
  // kernels of other ranks may still read, so that it comes after a stop() on all ranks, where the library has Revoke.
  void stop() noexcept;
  void abort() noexcept;
  // Call it after one of them. True when the device works for the communicator no more, false when it was given up:
  // late although it was never ready, or after minutes.
  bool await_end();
  // Call it after await_end(). Waits for the caller's work behind that of NCCL, which may still read the caller's
  // memory.
  void drain() { (void)stream_.synchronize(); }
  // Waits in the background until all ranks are done, over `host_plane`, then closes cleanly. Aborts if they are not,
  // or if another communicator has been shrunk from it. Takes ownership of the host plane.
  void close(std::unique_ptr<Communicator> host_plane) noexcept;

 private:
  enum class Stage : std::uint8_t { kOpen, kStopping, kStopped, kEnding };
  // The memory that NCCL uses during a shrink. It must exist until NCCL is done with the parent.
  struct Shrinking {
    std::string name;
    std::vector<int> left_out;
    NcclHandle made = nullptr;
  };

  NcclComm(const NcclLibrary& nccl, std::shared_ptr<device::Device> device, NcclInit init);
  static Result<std::shared_ptr<NcclComm>> unmade(const NcclLibrary& nccl, std::shared_ptr<device::Device> device,
                                                  NcclInit init);
  Status shrink(const std::shared_ptr<Shrinking>& shrinking);
  // Call it with the lock held. The parent's state until this communicator is made.
  NcclCode take_from_parent();
  void abort_parent();

  // Whether the end is over, after at most that time.
  using EndedWithin = std::function<bool(std::chrono::milliseconds)>;
  // Runs `work` on a thread that may be abandoned, and `watch` on another one. It is given up when `watch` returns
  // before its end.
  void end(const std::function<void()>& work, const std::function<void(const EndedWithin&)>& watch);
  void give_up();
  void end_in_time(const std::function<void()>& work);
  void watch_end(const EndedWithin& ended, const std::function<bool()>& may_begin, std::chrono::milliseconds limit);
  void watch_late_end(const EndedWithin& ended, std::chrono::milliseconds limit);
  void look_at_stream(const std::shared_ptr<std::atomic<bool>>& idle);
  std::function<bool()> caller_is_done();
  std::chrono::milliseconds end_limit() const;
  // Call it with the lock held. The state once NCCL has given the last call's operation to the device, or
  // kNcclInProgress if that is unknown at `until`.
  NcclCode settle(std::chrono::steady_clock::time_point until);
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
  std::atomic<bool> settled_{true};  // NCCL has given the last call's operation to the device
  std::atomic<bool> was_parent_{false};
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::atomic<std::chrono::steady_clock::duration> build_time_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  int unfinished_ = 0;  // ends of this one in progress
  bool given_up_ = false;
  bool left_ = false;  // its end goes on, and the device is free of it
  std::optional<device::CudaStream> caller_;
};

// The number of threads that still end communicators. A session waits for them briefly before its process exits.
int unfinished_nccl_ends();
bool await_nccl_ends(std::chrono::milliseconds limit);
// The longest time for which an end that is late, but leaves the device alone, has gone on; zero if there is none. Its
// communicator's memory, threads and descriptors stay in use meanwhile.
std::chrono::milliseconds longest_left_nccl_end();
// A sentence about a late end of a communicator for which the device still works; nothing if there is none.
std::optional<std::string> nccl_end_that_holds_the_device();
// The number of builds that were aborted before they were ready. NCCL leaks some of what each held if its ranks had not
// met: 4 descriptors, 2 streams and pinned memory in 2.28.
int abandoned_nccl_builds();

}  // namespace elastictrain::comm
