// Purpose: the identities and instants that supervisor, agents and workers share. Each id is a type of its own, so that
// a rank cannot be passed as a worker id. Time is an argument everywhere: nothing here reads a clock.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

namespace elastictrain {

template <class Tag>
struct Id {
  std::uint32_t value = 0;
  auto operator<=>(const Id&) const = default;
};

// A worker is one process; its id is never reused within a run. Ids start at 1; 0 means "none".
using WorkerId = Id<struct WorkerTag>;
// An agent is the launcher's process on a host; a host that comes back gets a new id. Ids start at 1.
using AgentId = Id<struct AgentTag>;

// One immutable membership. Numbers only grow; 0 means "before the first".
using Generation = std::uint64_t;
// Number of a committed step: the first update of a run is step 1.
using Step = std::uint64_t;

using Instant = std::chrono::time_point<std::chrono::steady_clock, std::chrono::microseconds>;
using Millis = std::chrono::milliseconds;

// Secret of one generation's data plane; only the control plane distributes it.
using Token = std::array<std::uint8_t, 16>;

// Of a replica over several hosts, the agents of the first host's mates are numbered by the first one's.
inline constexpr std::uint32_t kMateStride = 1U << 24;
constexpr AgentId mate_of(AgentId lead, std::uint32_t place) {
  return {lead.value + place * kMateStride};
}
constexpr AgentId lead_of(AgentId agent) {
  return {agent.value % kMateStride};
}
constexpr std::uint32_t place_of(AgentId agent) {
  return agent.value / kMateStride;
}

inline std::string to_string(WorkerId id) {
  return "w" + std::to_string(id.value);
}
inline std::string to_string(AgentId id) {
  return "a" + std::to_string(id.value);
}

}  // namespace elastictrain

template <class Tag>
struct std::hash<elastictrain::Id<Tag>> {
  std::size_t operator()(const elastictrain::Id<Tag>& id) const noexcept { return id.value; }
};
