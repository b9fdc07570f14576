// Purpose: the messages of one generation: sends them, expects them in order, waits without occupying a core, and
// abandons all of them at once when the generation breaks.
//
// Ownership: the communicator's. Thread: the communicator's caller. Failure: after an error the channel cannot be used.
// Messages in flight stay in MPI for as long as it needs them, in memory of ours.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "train/comm/communicator.h"
#include "train/comm/mpi/mpi_world.h"
#include "train/comm/operation.h"

namespace elastictrain::comm {

using MpiMessagePtr = std::unique_ptr<MpiMessage>;

class MpiChannel {
 public:
  // `members`: index = position, value = MPI rank. `rank`: this one's position; peers are named by theirs.
  MpiChannel(MpiWorld& world, Generation generation, std::uint32_t rank, std::vector<std::uint32_t> members,
             OpControl& control);
  ~MpiChannel();
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;

  // The operation that all later messages belong to.
  void begin(MpiOperation operation, std::uint64_t size, Element element = Element::kFloat32);
  MpiMessagePtr fresh();
  void recycle(MpiMessagePtr message) { free_.push_back(std::move(message)); }

  Status send(MpiMessagePtr message, std::uint32_t to);
  // Expects one more message from that rank, after those already expected.
  Status expect(std::uint32_t from);
  // The oldest expected message once it has arrived; null before.
  Result<MpiMessagePtr> poll();
  Result<MpiMessagePtr> wait();
  // Makes messages that have been sent available for reuse.
  Status let_go_of_sent();
  // Waits until MPI or the receiver has everything that was sent.
  Status wait_sent();

  std::size_t expected() const { return expected_.size(); }
  std::size_t sending() const { return sending_.size(); }
  // Waits until MPI holds fewer than `window` messages.
  Status wait_sending_below(std::size_t window);
  // Call it when there is nothing to do: yields the core after a while, and returns an error when the caller must stop.
  Status rest();
  // `look`: an additional condition to stop.
  void watch(std::function<Status()> look) { look_ = std::move(look); }

  const std::vector<PeerFigures>& figures() const { return figures_; }

 private:
  struct InFlight {
    MpiRequest request;
    MpiMessagePtr message;
    std::uint32_t peer = 0;
  };

  void abandon() noexcept;
  bool point_to_point() const { return call_.operation == MpiOperation::kSend; }
  int tag() const;
  Status check(const MpiMessage& message, std::size_t bytes, std::uint32_t from) const;

  MpiWorld& world_;
  const Generation generation_;
  const std::uint32_t rank_;
  const std::vector<std::uint32_t> members_;
  OpControl& control_;
  MpiCall call_;
  std::uint32_t collectives_ = 0;
  std::deque<InFlight> expected_;
  std::deque<InFlight> sending_;
  std::vector<MpiMessagePtr> free_;
  std::vector<PeerFigures> figures_;  // index and rank = position
  std::function<Status()> look_;
  int rests_ = 0;  // since the last message moved
};

}  // namespace elastictrain::comm
