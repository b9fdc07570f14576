// Purpose: collectives on a program's own values: reductions of any type, groups of ranks, values that are named by
// keys, and copies from which a step's collectives are repeated after a loss.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"
#include "train/session/collective_gate.h"
#include "train/session/generation.h"
#include "train/session/step_buckets.h"
#include "train/session/step_memory.h"

// All-reduces of a program's own values, of any type and operation, over a communicator that sums floats and
// gathers bytes. Every rank gets the same bits: what the communicator does not sum is gathered, a part at a time, and
// folded in the order of the ranks.
//
// Ownership: none. Thread: that of the communicator. Units: elements. Failure: that of the communicator.

namespace elastictrain::session {

std::size_t size_of(DataType type);

// What follows from the blocks of some ranks, in their order: into `data`, which is as long as one block.
void fold_gathered(std::span<std::byte> data, std::span<const std::byte> all, DataType type, Operation operation);

// In place; `data` is a whole number of elements and aligned for them.
Status reduce_values(comm::Communicator& communicator, std::span<std::byte> data, DataType type, Operation operation);

// Collectives of groups of ranks. All ranks call, each with the number of its group; data passes only between
// ranks of one group. A group meets at its lowest rank; where the topology does not connect that rank with all others
// of its group, the data takes the way through all ranks.
//
// Ownership: none. Thread: that of the communicator. Failure: that of the communicator.

class Group {
 public:
  // Everybody learns who is in which group.
  static Result<Group> meet(comm::Communicator& all, std::uint64_t number);

  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  // The blocks of the group's ranks, in their order; `gathered` has room for size() of them.
  Status all_gather(std::span<const std::byte> mine, std::span<std::byte> gathered);
  Status reduce(std::span<std::byte> data, DataType type, Operation operation);
  // `root`: a place in the group.
  Status broadcast(std::span<std::byte> data, std::uint32_t root);

 private:
  Group(comm::Communicator& all, std::vector<std::uint32_t> ranks, bool is_direct);
  std::uint32_t place() const;
  bool is_first() const { return all_.rank() == ranks_.front(); }
  Status gather_through_all(std::span<const std::byte> mine, std::span<std::byte> gathered);
  Status collect(std::span<const std::byte> mine, std::span<std::byte> gathered);  // at the first rank
  Status spread(std::span<std::byte> data);                                        // from there

  comm::Communicator& all_;
  std::vector<std::uint32_t> ranks_;  // ascending
  bool is_direct_;                    // in every group the first rank is connected with all others
};

// A program's own collectives in a step. What they change in place is shared from a copy of the original, so
// that it can be shared again among the survivors after a loss. Ownership: the worker; the copies are the program's
// memory. Thread: the training thread; the reducer's after reserve_copy(). Failure: that of the communicator.

class ProgramData {
 public:
  ProgramData(InputCopies& copies, const Assignment& assignment, const CollectiveGate& gate)
      : copies_(copies), assignment_(assignment), gate_(gate) {}

  // Makes room for the copy. On the training thread, where the room for copies of gradients is made.
  void reserve_copy(Bucket& bucket);

  Status share(Bucket& bucket);

 private:
  void restore_or_copy(Bucket& bucket);

  InputCopies& copies_;
  const Assignment& assignment_;
  const CollectiveGate& gate_;
};

// Values of one step that the program names by keys and starts in any order. The order of the first rank
// counts: its n-th key says what the n-th such collective of the step is, and every other worker waits until it has
// started that key, too. So the ranks stay in step whatever order each of them has, and a repetition after a loss, with
// another first rank perhaps, is the same again.
//
// Ownership: the worker. Thread: start() and close() on the training thread, run() where collectives run. Failure: that
// of the collective; kInvalid if the ranks have started different keys.

class KeyedValues {
 public:
  static constexpr std::size_t kMaxKeyBytes = 120;

  void begin_step();
  bool has_started(std::string_view key);  // in this step
  // A key that has not been started.
  void start(std::string_view key, Collective work);
  // The training thread starts no other key until what has been started is done.
  void close();
  void reopen();
  // The collective of this place in the first rank's order, from 0.
  Status run(std::size_t place, comm::Communicator& others);
  std::size_t started() const { return order_.size(); }

 private:
  Result<Collective> await(const std::string& key, std::size_t place);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> order_;  // in which this worker has started them
  std::map<std::string, Collective, std::less<>> work_;
  bool closed_ = false;
};

}  // namespace elastictrain::session
