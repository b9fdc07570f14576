// Purpose: decides what the next generation looks like before anything is started or stopped: which workers stay, join
// and leave, and where new workers are placed; and turns the decision into the plan that workers receive. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

struct Place {
  AgentId agent;
  std::uint32_t slot = 0;
  bool operator==(const Place&) const = default;
};

// A member of the current generation, in the order of the ranks that they are to have.
struct CurrentMember {
  WorkerId worker;
  Place place;
  bool displaced = false;     // its host or slot goes away: it leaves, with or without a successor
  bool replaced = false;      // a replacement was requested: it leaves once it has a successor
  bool can_overlap = false;   // for `replaced`: its own slot may also hold its successor
  bool leaves_first = false;  // for `replaced`: its slot could hold its successor, had its device the memory for two
  bool leads = false;         // it was started as rank 0, in place of a worker that is gone
};

// A worker in no generation that could join, best first.
struct Candidate {
  WorkerId worker;
  Place place;
  bool may_wait = true;      // may stay as a spare (it does not share its slot)
  bool last_resort = false;  // on a host that workers are to move away from
};

struct SwapInput {
  std::vector<CurrentMember> members;
  std::vector<Candidate> candidates;
  std::vector<Place> free;  // slots for new workers, best first
  std::uint32_t want = 0;
  std::uint32_t min = 0;
  std::uint32_t spares = 0;
};

struct SwapDecision {
  std::vector<WorkerId> stay;   // in rank order
  std::vector<WorkerId> join;   // candidates that join
  std::vector<Place> start;     // workers to start that join
  std::vector<WorkerId> leave;  // in rank order
  std::vector<WorkerId> spare;  // candidates that wait
  std::vector<Place> start_spare;
  std::vector<WorkerId> dismiss;  // candidates that are not needed
  std::vector<WorkerId> held;     // displaced, but needed to keep `min` workers: they stay for now
  // All others are new: this member stays for one more generation, so that a worker has the state and a batch.
  std::optional<WorkerId> bridge;
  std::optional<WorkerId> makes_room;  // it leaves, and its successor starts in its slot once it has
  std::uint32_t size() const { return static_cast<std::uint32_t>(stay.size() + join.size() + start.size()); }
};

SwapDecision decide_swap(const SwapInput& input);

// What the plan needs to know about each member of the next generation, in rank order.
struct PlanMember {
  WorkerId worker;
  std::string host;
  protocol::Endpoint endpoint;
  bool survivor = false;
};

inline constexpr std::size_t kMaxDonors = 8;

// Fills members, shares, donors, batch-dependent learning-rate factor and deadlines; the caller adds token and reason.
// `speeds`: one per rank, shares are proportional to them; empty: equal shares.
protocol::GenerationPlan make_plan(const RunSettings& settings, Generation generation, Generation previous,
                                   const std::vector<PlanMember>& members, const std::vector<double>& speeds = {});

// The batch for which the user chose the learning rate: that of the first size.
std::uint64_t base_batch(const RunSettings& settings);

// By the user's rule, or as requested instead of it.
double learning_rate_factor(const RunSettings& settings, std::uint64_t global_batch);

// Among survivors that tie in everything else, one per host first, so that several network cards share the load.
std::vector<WorkerId> choose_donors(const std::vector<protocol::Member>& members, std::size_t max);

}  // namespace elastictrain::core
