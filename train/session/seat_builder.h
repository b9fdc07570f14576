// Purpose: builds the communicators of coming generations in the background while the current one trains, and closes
// those of past ones. The worker machine decides what is built when (worker_machine.h).
//
// Ownership: the control plane. Thread: all calls from any thread; one builder thread of its own, created with the
// first build. Failure: `done` receives the reason of a failed build; it is not called for a dropped one.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "supervisor/protocol/plan_messages.h"
#include "supervisor/protocol/result.h"
#include "train/comm/cancel_token.h"
#include "train/comm/cpu_communicator.h"

namespace elastictrain::session {

class SeatBuilder {
 public:
  using Build = std::function<Result<comm::BuildResult>(const protocol::GenerationPlan&, std::uint32_t rank,
                                                        const comm::CancelToken&)>;
  // Called on the builder thread, which holds no lock.
  using Done = std::function<void(Generation, const Status&)>;

  SeatBuilder(Build build, Done done);
  ~SeatBuilder();

  void start(protocol::GenerationPlan plan, std::uint32_t rank);
  // Cancels the build, or closes its result.
  void drop(Generation generation);
  std::optional<comm::BuildResult> take(Generation generation);
  // Closes the communicator of a past generation in the background.
  void retire(std::shared_ptr<comm::Communicator> communicator);

 private:
  struct Entry {
    protocol::GenerationPlan plan;
    std::uint32_t rank = 0;
    comm::CancelToken cancel;
    bool begun = false;
    std::optional<comm::BuildResult> result;
  };

  void run();
  std::shared_ptr<Entry> next_to_build() const;
  void build(const std::shared_ptr<Entry>& entry, std::unique_lock<std::mutex>& lock);

  const Build build_;
  const Done done_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Generation, std::shared_ptr<Entry>> entries_;
  std::vector<std::shared_ptr<void>> retired_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace elastictrain::session
