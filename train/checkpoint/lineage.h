// Purpose: selects the checkpoints of a directory that count, the newest of them, and those that can be removed. Pure.
//
// A generation that continues from step T after a loss has the first step T+1: everything that earlier generations
// wrote about later steps is discarded. That is a fence; all fences together are the lineage. Checkpoints that a
// disconnected worker writes are void because of the fence.
#pragma once

#include <compare>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::checkpoint {

using protocol::Fence;
using Lineage = std::vector<Fence>;

// A greater identity is newer. The generation counts more than the step, as a later one may have returned to an earlier
// step.
struct Identity {
  Generation generation = 0;
  Step step = 0;
  auto operator<=>(const Identity&) const = default;
};

// Ascending generations and first steps, without fences that a later one implies; at most the newest 256.
Lineage merge(std::span<const Fence> a, std::span<const Fence> b);

bool is_fenced_out(const Identity& identity, std::span<const Fence> lineage);

// The checkpoints that count, newest first: the order in which they are tried.
std::vector<Identity> newest_first(std::span<const Identity> found, std::span<const Fence> lineage);

// The checkpoints that may be removed so that `keep` remain: older ones that count, and those fenced out by a run that
// continues beyond them. Checkpoints of generations up to `foreign` that do not count belong to another run and stay.
std::vector<Identity> removable(std::span<const Identity> found, std::span<const Fence> lineage, std::size_t keep,
                                Generation foreign);

// The format of ELASTICTRAIN_LINEAGE: "generation:first_step,…".
Result<Lineage> parse_lineage(std::string_view text);

}  // namespace elastictrain::checkpoint
