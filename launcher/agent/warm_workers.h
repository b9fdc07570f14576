// Purpose: processes whose worker was let go by a shrink, and which wait in their slots to be the next worker: with the
// program, its framework and its model in memory, silent and asleep. Each is ended after a time, at once when it is
// told to, and the oldest ones when all together hold too much memory.
//
// Ownership: owns the processes; the agent owns this. Thread: the io_context's.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "launcher/agent/worker.h"
#include "supervisor/protocol/agent_messages.h"

namespace elastictrain::launcher {

struct WarmLimits {
  std::chrono::milliseconds time{0};  // 0: no process is kept
  std::uint64_t bytes = 0;            // of main memory, all together
  std::chrono::milliseconds grace{0};
};

class WarmWorkers {
 public:
  // `on_change`: a process came, is ending or has ended.
  WarmWorkers(asio::io_context& io, WarmLimits limits, std::function<void()> on_change);

  void keep(std::unique_ptr<WorkerProcess> process);
  // The one that waits in this slot; null: none.
  std::unique_ptr<WorkerProcess> take(std::uint32_t slot);
  void end(WorkerId was);
  void end_in(std::uint32_t slot);
  void end_all(std::chrono::milliseconds grace);
  // Call it now and then.
  void look_at_memory();

  std::vector<protocol::WarmProcess> list() const;
  bool empty() const { return kept_.empty(); }

 private:
  struct Kept {
    std::unique_ptr<WorkerProcess> process;
    asio::steady_timer timer;  // to the end of its time, then of its patience
    bool ending = false;
  };

  void end(Kept& kept, std::chrono::milliseconds grace);
  void stop(WorkerId was, std::chrono::milliseconds grace);
  void ended(WorkerId was);

  asio::io_context& io_;
  const WarmLimits limits_;
  const std::function<void()> on_change_;
  std::list<Kept> kept_;  // oldest first
};

}  // namespace elastictrain::launcher
