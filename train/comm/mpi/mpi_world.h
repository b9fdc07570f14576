// Purpose: this process's place among the ranks of an MPI launch, and the thread that joins and leaves MPI.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "train/comm/mpi/mpi_library.h"
#include "train/comm/mpi/mpi_message.h"

// The one thread that joins and leaves MPI. MPI requires the same thread for both; each call waits for all
// ranks of the launch, and nothing can end that wait. A caller waits up to a deadline and continues without the result.
//
// Ownership: one for the process, never destroyed. Thread: any, one call after the other. Failure: false. The work then
// continues in the background, so it must only use what it owns or what is never destroyed.

namespace elastictrain::comm {

class MpiThread {
 public:
  static MpiThread& of_process();

  // True once `work`, and all work requested before it, is done.
  bool run(std::function<void()> work, std::chrono::milliseconds time_limit);

 private:
  MpiThread() = default;
  void start();
  [[noreturn]] void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::function<void()> work_;  // empty: no work
};

// This process's place among all ranks that an MPI launch started, of which generations use a part. It
// separates the messages of different generations, notifies other ranks that a generation is broken, and keeps
// abandoned requests.
//
// MPI moves messages only within its calls. A rank that makes none for long (it trains alone, or has no assignment)
// calls progress() from time to time, so that no rank waits for its messages.
//
// A generation has no MPI communicator of its own: the call that makes one cannot be ended by a deadline or an abort
// when a member has failed. Instead its messages have a tag of their own among all ranks, which costs nothing to create
// or drop. Messages of a broken generation that were never received stay in MPI, unmatched.
//
// Ownership: one for the process, never destroyed. Thread: any; a lock serializes calls if the library takes one caller
// at a time. Failure: kUnavailable if there is no MPI or it did not start this process; kIo with MPI's message.

class MpiWorld {
 public:
  // The first call loads the library and joins, which needs all ranks of the launch. Later calls return the same
  // result. kTimeout: some ranks have not joined in time. MPI keeps waiting for them, so this process can only end.
  static Result<MpiWorld*> join(std::chrono::milliseconds time_limit);

  // Over a library that has joined, without notices of other ranks: for tests.
  explicit MpiWorld(std::unique_ptr<MpiLibrary> library) : library_(std::move(library)) {}

  std::uint32_t rank() const { return static_cast<std::uint32_t>(library_->rank()); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(library_->size()); }
  const MpiLibrary& library() const { return *library_; }

  enum class Plane { kCollective, kPointToPoint };
  int tag(Generation generation, Plane plane) const;

  Result<MpiRequest> send(std::span<const std::byte> bytes, std::uint32_t to, int tag);
  Result<MpiRequest> receive(std::span<std::byte> bytes, std::uint32_t from, int tag);
  Result<std::optional<std::size_t>> test(MpiRequest& request);
  // Takes over an abandoned request with the memory that it reads or writes, which is freed only once the request is
  // done.
  void abandon(MpiRequest request, std::unique_ptr<MpiMessage> message, bool receives) noexcept;

  // Members learn it in their next wait, whatever they wait for.
  void notify_broken(Generation generation, std::span<const std::uint32_t> ranks) noexcept;
  bool is_broken(Generation generation);

  void progress() noexcept;

  // No message is sent or received after this call; those in flight are abandoned. Ends MPI together with all other
  // ranks, unless the program started it. kPeerLost: a generation broke here, so ranks that MPI would wait for may be
  // lost, or the launcher is gone. kTimeout: MPI waits for some ranks. In either case this process may exit without
  // MPI_Finalize.
  Status leave(std::chrono::milliseconds time_limit);

 private:
  // Sent to all ranks that may be waiting: `generation` is over.
  struct Notice {
    Generation generation = 0;
    MpiRequest request;
  };
  struct Abandoned {
    MpiRequest request;
    std::unique_ptr<MpiMessage> message;
  };
  // Holds a lock only if the library requires it.
  class Turn;

  static Result<MpiWorld*> make();
  Status there() const;
  Status listen();
  void hear();
  void release_notices();
  void forget_sent_notices();

  std::unique_ptr<MpiLibrary> library_;
  std::atomic<bool> left_{false};
  std::mutex one_caller_;
  std::mutex mutex_;  // guards the following members
  std::set<Generation> broken_;
  std::unique_ptr<Notice> received_;
  std::deque<std::unique_ptr<Notice>> reported_;
  std::deque<Abandoned> abandoned_;
};

}  // namespace elastictrain::comm
