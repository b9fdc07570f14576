// Purpose: everything of a launched worker that is not the training loop: the link to the agent, the plans of coming
// generations and where the data plane is reached. The session asks it at step boundaries.
//
// Ownership: the session. Thread: all calls on the training thread, except send(). Its own threads: control, builder.
// Failure: see AgentLink and SwapSlot; open() and announce() fail where the agent or an address is not there.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"
#include "train/comm/data_listener.h"
#include "train/session/agent_link.h"
#include "train/session/environment.h"
#include "train/session/swap_slot.h"

namespace elastictrain::session {

class ControlPlane {
 public:
  enum class Wake { kSeat, kDismissed, kOrphaned, kNothing };

  static Result<std::unique_ptr<ControlPlane>> open(const Environment& environment,
                                                    std::function<std::vector<protocol::WorkerUp>()> on_heartbeat);
  ~ControlPlane();

  // Opens the data plane's listener and tells the supervisor that this worker can start.
  Status announce(protocol::WorkerReady ready);

  // For a worker in no generation: until a seat can be taken, or there will be none; at most `patience`.
  Wake wait_for_seat(std::chrono::milliseconds patience);
  bool swap_ready(Generation current) const { return slot_->ready(current); }
  std::optional<Upcoming> take(Generation current) { return slot_->take(current); }
  void retire(std::unique_ptr<comm::Communicator> communicator) { slot_->retire(std::move(communicator)); }

  bool dismissed() const { return dismissed_.load(); }
  bool orphaned() const { return orphaned_.load(); }

  void send(const protocol::WorkerUp& message) { link_->send(message); }
  void close(std::chrono::milliseconds flush_time) { link_->close(flush_time); }

 private:
  explicit ControlPlane(const Environment& environment);
  void hear(protocol::WorkerDown message);
  void notify();
  Result<comm::BuildResult> build(const protocol::GenerationPlan& plan, std::uint32_t rank,
                                  const comm::CancelToken& cancel);

  const Environment& environment_;
  std::unique_ptr<comm::DataListener> listener_;
  std::atomic<bool> dismissed_{false};
  std::atomic<bool> orphaned_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<AgentLink> link_;
  std::unique_ptr<SwapSlot> slot_;
};

// Ranks of the donors in the order of their slices, and of the joiners.
std::vector<std::uint32_t> donor_ranks(const protocol::GenerationPlan& plan);
std::vector<std::uint32_t> joiner_ranks(const protocol::GenerationPlan& plan);

// How long a build or a state transfer of this plan may take.
std::chrono::milliseconds time_limit(const protocol::GenerationPlan& plan);

}  // namespace elastictrain::session
