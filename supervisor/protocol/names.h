// Purpose: the names of a plan's choices, and of a program's phases, in the config, in policies, in the journal and in
// programs.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "supervisor/protocol/plan_messages.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::protocol {

// In the order of the enumerators.
inline constexpr std::array<std::string_view, 9> kTopologyNames{
    "auto",  "star", "ring", "tree", "binary-tree", "binary-tree-star", "multi-star", "multi-binary-tree-star",
    "clique"};
inline constexpr std::array<std::string_view, 3> kSynchronizationNames{"s-sgd", "averaging", "pair-averaging"};
inline constexpr std::array<std::string_view, 5> kProgramPhaseNames{"", "data", "evaluation", "compile", "checkpoint"};

constexpr std::string_view name_of(Topology topology) {
  return kTopologyNames[static_cast<std::size_t>(topology)];
}
constexpr std::string_view name_of(Synchronization synchronization) {
  return kSynchronizationNames[static_cast<std::size_t>(synchronization)];
}
constexpr std::string_view name_of(ProgramPhase phase) {
  return kProgramPhaseNames[static_cast<std::size_t>(phase)];
}

template <class Choice, std::size_t N>
constexpr std::optional<Choice> named(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Choice>(i);
  }
  return std::nullopt;
}
constexpr std::optional<Topology> topology_named(std::string_view name) {
  return named<Topology>(kTopologyNames, name);
}
constexpr std::optional<Synchronization> synchronization_named(std::string_view name) {
  return named<Synchronization>(kSynchronizationNames, name);
}
constexpr std::optional<ProgramPhase> program_phase_named(std::string_view name) {
  return named<ProgramPhase>(kProgramPhaseNames, name);
}

}  // namespace elastictrain::protocol
