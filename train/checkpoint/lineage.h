// Purpose: which checkpoints of a directory count, which of them is the newest, and which may go. Pure.
//
// A generation that goes on from step T after a loss has the first step T+1: whatever generations before it wrote about
// later steps belongs to a past that did not happen. That is a fence; all fences together are the lineage. A worker
// that was cut off may write what it likes: the fence makes it void.
#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::checkpoint {

using protocol::Fence;
using Lineage = std::vector<Fence>;

// Newer is greater: the generation counts more than the step, as a later one may have gone back to an earlier step.
struct Identity {
  Generation generation = 0;
  Step step = 0;
  auto operator<=>(const Identity&) const = default;
};

// Ascending generations and first steps, without fences that a later one implies; at most the newest 256.
Lineage merge(std::span<const Fence> a, std::span<const Fence> b);

bool is_fenced_out(const Identity& identity, std::span<const Fence> lineage);

// Those that count, newest first: the order in which they are tried.
std::vector<Identity> newest_first(std::span<const Identity> found, std::span<const Fence> lineage);

// What may be removed when `keep` checkpoints are wanted: older ones that count, and those fenced out by a run that
// goes on beyond them. What generations up to `foreign` left that does not count is another run's and stays.
std::vector<Identity> removable(std::span<const Identity> found, std::span<const Fence> lineage, std::size_t keep,
                                Generation foreign);

// As in ELASTICTRAIN_LINEAGE: "generation:first_step,…".
Result<Lineage> parse_lineage(std::string_view text);

}  // namespace elastictrain::checkpoint
