// Purpose: pairs of workers that average their models with each other in a step of pair averaging. Pure: every worker
// computes the same pairs from the reachability of all ranks and the step number, so no messages are needed. (In KungFu
// each worker draws a random peer, algorithms B6; here both ends of a pair know each other, and both models move.)
//
// Ranks, in a random order, each take a random free rank that they can reach. A rank that finds none stays alone in
// this step. Over many steps every reachable pair is chosen, so what one worker learned spreads to all as long as the
// reachable pairs connect them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace elastictrain::peers {

// The ranks that each rank can reach.
class Reach {
 public:
  Reach() = default;
  // One bit for each peer, lowest first; one row for each rank, as an all-gather returns them.
  Reach(std::span<const std::byte> rows, std::uint32_t world_size);

  static std::size_t row_bytes(std::uint32_t world_size) { return (world_size + 7) / 8; }
  std::uint32_t world_size() const { return static_cast<std::uint32_t>(peers_.size()); }
  const std::vector<std::uint32_t>& peers(std::uint32_t rank) const { return peers_[rank]; }

 private:
  std::vector<std::vector<std::uint32_t>> peers_;  // pairs that reach each other in both directions
};

// The partner of each rank, or the rank itself if it stays alone.
std::vector<std::uint32_t> match_pairs(const Reach& reach, std::uint64_t step);

}  // namespace elastictrain::peers
