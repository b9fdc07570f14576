// Purpose: who averages its model with whom in a step of pair averaging. Pure: every worker computes the same pairs
// from who reaches whom and the number of the step, so nobody has to ask (KungFu draws a peer at random on each worker,
// algorithms B6; here both ends of a pair know of each other, and both models move).
//
// Ranks, in a random order, take a random one of those that they reach and that are still free; who finds none stays
// alone in this step. Over many steps every pair that reaches each other has its turn, so what one worker learned
// reaches all as long as the reachable pairs connect them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace elastictrain::session {

// Whom each rank reaches.
class Reach {
 public:
  Reach() = default;
  // One bit for each peer, lowest first; a row for each rank, as an all-gather brings them.
  Reach(std::span<const std::byte> rows, std::uint32_t world_size);

  static std::size_t row_bytes(std::uint32_t world_size) { return (world_size + 7) / 8; }
  std::uint32_t world_size() const { return static_cast<std::uint32_t>(peers_.size()); }
  const std::vector<std::uint32_t>& peers(std::uint32_t rank) const { return peers_[rank]; }

 private:
  std::vector<std::vector<std::uint32_t>> peers_;  // pairs that reach each other both ways
};

// The partner of each rank; itself where it stays alone.
std::vector<std::uint32_t> match_pairs(const Reach& reach, std::uint64_t step);

}  // namespace elastictrain::session
