// Purpose: the generations that may come next. Each plan is built in the background while the current generation
// trains; the training thread asks at step boundaries whether one is built and committed, and takes it.
//
// Ownership: the control plane. Thread: prepare/commit/cancel on the control thread, ready/take/wait/retire on the
// training thread; one builder thread of its own, made with the first plan, that also closes old communicators.
// Order: a newer plan cancels older ones that are not committed; a committed one stays until it is taken.
// Failure: a build that fails is reported with its reason and forgotten; the current generation is not touched.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"
#include "train/comm/cancel_token.h"
#include "train/comm/cpu_communicator.h"

namespace elastictrain::session {

// A generation that is built; without a communicator where this worker is not a member.
struct Upcoming {
  protocol::GenerationPlan plan;
  std::optional<std::uint32_t> rank;
  comm::BuildResult build;
};

class SwapSlot {
 public:
  using Build = std::function<Result<comm::BuildResult>(const protocol::GenerationPlan&, std::uint32_t rank,
                                                        const comm::CancelToken&)>;
  using Report = std::function<void(const protocol::WorkerUp&)>;

  SwapSlot(WorkerId self, Build build, Report report);
  ~SwapSlot();

  void prepare(protocol::GenerationPlan plan);
  void commit(Generation generation);
  void cancel(Generation generation);

  // `current` 0: this worker is in no generation yet.
  bool ready(Generation current) const;
  std::optional<Upcoming> take(Generation current);

  // Closes a communicator of the past in the background.
  void retire(std::unique_ptr<comm::Communicator> communicator);

 private:
  struct Entry {
    Upcoming upcoming;
    comm::CancelToken cancel;
    bool building = false;
    bool built = false;
    bool committed = false;
  };
  using Entries = std::map<Generation, std::shared_ptr<Entry>>;

  void run();
  std::shared_ptr<Entry> next_to_build() const;
  void build(const std::shared_ptr<Entry>& entry, std::unique_lock<std::mutex>& lock);
  Entries::const_iterator find_ready(Generation current) const;
  void drop(Entries::iterator entry);

  const WorkerId self_;
  const Build build_;
  const Report report_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Entries entries_;
  Generation newest_taken_ = 0;
  std::vector<std::unique_ptr<comm::Communicator>> retired_;
  bool ending_ = false;
  std::thread thread_;
};

std::optional<std::uint32_t> rank_in(const protocol::GenerationPlan& plan, WorkerId worker);

}  // namespace elastictrain::session
