// Purpose: the samples that a step takes, as pure functions of a few numbers. They are part of the replicated state of
// a run, so every worker divides the same step without messages.
//
// The order of an epoch is a permutation with a format of our own (it must be the same with every compiler and on every
// machine): a keyed Feistel network over the positions, repeated until the result lies inside the data set. It needs no
// memory and no start-up time at the begin of an epoch, whatever the size of the data set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace elastictrain::state {

// Positions [first, first + count) of an epoch's permutation.
struct Interval {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  bool operator==(const Interval&) const = default;
};

struct SamplerState {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;   // from 0
  std::uint64_t cursor = 0;  // positions of this epoch that were assigned to workers
  // Positions below the cursor that are in no committed step: those of workers whose gradient did not count. The next
  // steps take them first, and an epoch is over only when none is left. Ascending, disjoint, never adjacent.
  std::vector<Interval> returned;
  bool operator==(const SamplerState&) const = default;
};

// Whether the returned samples satisfy SamplerState; for a state from outside.
bool is_well_formed(const SamplerState& state);

// A bijection of [0, size), determined by (seed, epoch).
class Permutation {
 public:
  Permutation() = default;
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);
  std::uint64_t at(std::uint64_t position) const;

 private:
  static constexpr int kRounds = 10;
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_ = 0;
  unsigned low_bits_ = 0;
  unsigned high_bits_ = 0;
  std::uint64_t keys_[kRounds] = {};
};

// The samples of an epoch that one step takes, and the share of each worker.
struct Cut {
  std::uint64_t epoch = 0;
  std::vector<Interval> pieces;       // all of it, in the order of assignment: returned positions first
  std::uint64_t total = 0;            // samples in all pieces
  std::uint64_t fresh = 0;            // the last of them, which start at the cursor
  std::vector<std::uint64_t> counts;  // by rank; add up to `total` unless all shares are zero
  bool first_of_epoch = false;        // nothing of this epoch was assigned before

  std::uint64_t count(std::size_t rank) const { return counts[rank]; }
  std::vector<Interval> part(std::size_t rank) const;
};

// Divides `total` in proportion to the shares by largest remainder (ties go to the lower rank). The parts add up to
// `total` unless all shares are zero.
std::vector<std::uint64_t> split_by_shares(std::uint64_t total, std::span<const std::uint32_t> shares);

// The same, but no part that is not empty is below `min_part` (above 0), if `total` is not: if one would be, the ranks
// with the largest shares get equal parts and the others none.
std::vector<std::uint64_t> split_with_minimum(std::uint64_t total, std::span<const std::uint32_t> shares,
                                              std::uint64_t min_part);

// `count` positions of `intervals` after the first `skip` of them, in their order; fewer if there are fewer.
std::vector<Interval> slice(std::span<const Interval> intervals, std::uint64_t skip, std::uint64_t count);

// Ascending and disjoint, neighbours merged. The intervals of `more` overlap neither each other nor `intervals`.
std::vector<Interval> merge(std::span<const Interval> intervals, std::span<const Interval> more);
std::uint64_t count_of(std::span<const Interval> intervals);

// The next min(sum of shares, rest of the epoch) positions. `sample_count` 0: endless data without indices. No part is
// smaller than `min_part` unless it is empty: fewer workers share the end of an epoch, and a rest below that size goes
// with the step before it. Only where a loss returns fewer samples at the very end, one part holds what there is.
Cut cut_step(const SamplerState& state, std::uint64_t sample_count, std::span<const std::uint32_t> shares,
             std::uint64_t min_part = 0);

// Where the next step of these shares takes its samples if the rest of an epoch that does not fill it is dropped: at
// the begin of the next epoch then. An epoch of which nothing is used yet is kept, however small it is.
SamplerState without_tail(const SamplerState& state, std::uint64_t sample_count, std::span<const std::uint32_t> shares);

// The state after the step is committed. `uncounted`: shares of the step whose gradient it does not contain. They
// return to the pool, and the epoch continues until they are used.
SamplerState advance(const SamplerState& state, std::uint64_t sample_count, const Cut& cut,
                     std::span<const Interval> uncounted = {});

}  // namespace elastictrain::state
