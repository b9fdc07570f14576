// Purpose: reconciliation of the actual with the desired state: plans the next membership, and takes the next step
// towards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/core/pure/swap_plan.h"
#include "supervisor/core/run.h"

// Plans the next membership from the actual and the desired state. It changes nothing: equal states give equal
// answers.

namespace elastictrain::core {

struct ChangeDescription {
  protocol::ChangeKind kind = protocol::ChangeKind::kStart;
  std::string reason;
};

std::uint32_t size_limit(const Run& run);
std::uint32_t target_size(const Run& run);
// Before the batch limits it.
std::uint32_t asked_size(const Run& run);
// Its host or slot is not the run's any more.
bool is_displaced(const Run& run, const Worker& worker);
// Displaced, and its slot is not just exchanged for another one.
bool gives_back(const Run& run, const Worker& worker);
// Workers that could join: those of the plan first, so that a plan is not rebuilt without need; then the ready ones.
std::vector<Candidate> candidates(const Run& run);
std::vector<Place> free_places(const Run& run);
SwapInput swap_input(const Run& run);
// Slots may still become free, or hosts answer, without a new request.
bool is_settling(const Run& run);
// A plan is not begun while a worker that must answer cannot be reached.
bool all_reachable(const Run& run, const std::vector<WorkerId>& next);
bool is_same_plan(const Run& run, const SwapDecision& decision);
ChangeDescription describe_change(const Run& run, const SwapDecision& decision, std::size_t next_size);
std::string unmet_text(const Run& run, const SwapDecision& decision, std::uint32_t want);

// Takes the next step from the actual state towards the desired one: starts and dismisses workers, and begins
// a change when its workers are ready. A newer desired state supersedes an older one.

void reconcile(Run& run);
// Starts and dismisses workers; returns the members of the next generation in rank order.
std::vector<WorkerId> carry_out(Run& run, const SwapDecision& decision);

}  // namespace elastictrain::core
