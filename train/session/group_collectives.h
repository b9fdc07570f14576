// Purpose: collectives of groups of ranks. All ranks call, each with the number of its group; data passes only between
// ranks of one group. A group meets at its lowest rank; where the topology does not connect that rank with all others
// of its group, the data takes the way through all ranks.
//
// Ownership: none. Thread: that of the communicator. Failure: that of the communicator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"

namespace elastictrain::session {

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

}  // namespace elastictrain::session
