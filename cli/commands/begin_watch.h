// Purpose: finds in a run's records when it has begun: its first generation trains, its programs run and do not use the
// library, or all its hosts are back after it was taken over.
// Thread: the Asio loop's. Ownership: borrows the loop.
#pragma once

#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>

#include "supervisor/core/pure/records.h"

namespace elastictrain::cli {

class BeginWatch {
 public:
  // `begun` is called once. A program that has said nothing to its agent `plain_after` its start does not use the
  // library.
  BeginWatch(asio::io_context& io, std::uint64_t workers, std::chrono::milliseconds plain_after,
             std::function<void()> begun);

  void take(const core::Record& record);
  // It counts as begun already: it waits for its turn.
  void queued() { report(); }
  void cancel() { timer_.cancel(); }

 private:
  void all_run();
  void report();

  asio::steady_timer timer_;
  const std::uint64_t workers_;
  const std::chrono::milliseconds plain_after_;
  std::function<void()> begun_;
  std::uint64_t running_ = 0;
  bool uses_library_ = false;
};

}  // namespace elastictrain::cli
