// Purpose: this process's place among all ranks that an MPI launch started, of which generations use a part. It knows
// how messages of different generations are kept apart, tells other ranks that a generation is broken, and keeps what
// was given up.
//
// MPI moves messages only within its calls. A rank that makes none for long (it trains alone, or has no seat) calls
// progress() now and then, so that nobody waits for what it has sent.
//
// A generation has no communicator of MPI's own: making one is a call that no deadline and no abort can end when a
// member has died. Its messages have a tag of their own among all ranks instead, which costs nothing to make and
// nothing to drop. What was sent in a broken generation and was never received stays in MPI, unmatched.
//
// Ownership: one for the process, never destroyed. Thread: any; where the library takes one caller at a time, a lock
// does that. Failure: kUnavailable where there is no MPI or it did not start this process, kIo in MPI's words.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
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

namespace elastictrain::comm {

class MpiWorld {
 public:
  // The first call loads the library and joins, which takes all ranks of the launch; later ones give the same answer.
  // kTimeout: some have not come in time. MPI goes on waiting for them, so that this process can only end.
  static Result<MpiWorld*> join(std::chrono::milliseconds time_limit);

  std::uint32_t rank() const { return static_cast<std::uint32_t>(library_->rank()); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(library_->size()); }
  const MpiLibrary& library() const { return *library_; }

  enum class Plane { kCollective, kPointToPoint };
  int tag(Generation generation, Plane plane) const;

  Result<MpiRequest> send(std::span<const std::byte> bytes, std::uint32_t to, int tag);
  Result<MpiRequest> receive(std::span<std::byte> bytes, std::uint32_t from, int tag);
  Result<std::optional<std::size_t>> test(MpiRequest& request);
  // Takes a request that nobody waits for any more, with what it reads or writes. It is never freed unless it is done.
  void abandon(MpiRequest request, std::unique_ptr<MpiMessage> message, bool receives) noexcept;

  // Members learn it in their next wait, wherever they are.
  void tell_broken(Generation generation, std::span<const std::uint32_t> ranks) noexcept;
  bool is_broken(Generation generation);

  void progress() noexcept;

  // No message is sent or received from here on; those that are in flight are forgotten. Ends MPI together with all
  // other ranks, unless the program began it. kPeerLost: a generation broke here, so that ranks may be lost that MPI
  // would wait for, or the launcher is gone; kTimeout: it waits for some. Either way this process may end, without
  // MPI's blessing.
  Status leave(std::chrono::milliseconds time_limit);

 private:
  // To whoever may be waiting: `generation` is over.
  struct Notice {
    Generation generation = 0;
    MpiRequest request;
  };
  struct Abandoned {
    MpiRequest request;
    std::unique_ptr<MpiMessage> message;
  };
  // Holds a lock only where the library asks for it.
  class Turn;

  explicit MpiWorld(std::unique_ptr<MpiLibrary> library) : library_(std::move(library)) {}
  static Result<MpiWorld*> make();
  Status there() const;
  Status listen();
  void hear();
  void bury();
  void forget_sent_notices();

  std::unique_ptr<MpiLibrary> library_;
  std::atomic<bool> left_{false};
  std::mutex one_caller_;
  std::mutex mutex_;  // of what follows
  std::set<Generation> broken_;
  std::unique_ptr<Notice> heard_;
  std::deque<std::unique_ptr<Notice>> told_;
  std::deque<Abandoned> abandoned_;
};

}  // namespace elastictrain::comm
