// Purpose: one blocking operation of a communicator: the kind that ranks compare, its deadline and abort, and its
// way of waiting on this machine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>

#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"
#include "train/comm/socket.h"

// The letter that ranks compare before a collective operation, and what it means to people. Pure.

namespace elastictrain::comm {

inline constexpr char kShareKind = 's';

char kind_of_sum(Element element);

// " It is … here and … there." Empty: both are the same.
std::string kinds_text(char here, char there);

// Ends a blocked operation from outside (abort, deadline) and chooses how to wait on this machine: with a core
// for every rank a waiting thread spins, otherwise it yields its core to the ranks it waits for.
//
// Ownership: the communicator's; its parts borrow it. Thread: request_abort() from any, the rest from the caller's.

class OpControl {
 public:
  // `processors`: those that all ranks of the machine share, if each is bound to some; 0: use this thread's.
  OpControl(std::chrono::milliseconds timeout, std::size_t ranks_on_machine, std::size_t processors);

  void begin() { deadline_ = timeout_.count() > 0 ? std::chrono::steady_clock::now() + timeout_ : Deadline::max(); }
  void limit(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  void request_abort() noexcept { aborted_.store(true, std::memory_order_seq_cst); }
  bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire); }

  // Returns an error when the operation must end.
  Status check() const;

  // Number of polls of a condition, without and with yielding the core, before a waiting thread sleeps.
  int spins() const { return spins_; }
  int yields() const { return yields_; }
  bool crowded() const { return crowded_; }  // more ranks than cores

 private:
  std::chrono::milliseconds timeout_;
  Deadline deadline_ = Deadline::max();
  std::atomic<bool> aborted_{false};
  bool crowded_ = false;
  int spins_ = 0;
  int yields_ = 0;
};

}  // namespace elastictrain::comm
