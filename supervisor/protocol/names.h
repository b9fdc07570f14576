// Purpose: the names of a plan's choices, of a program's phases and of notes, and topologies as users write them, in
// configuration, policies, journal and programs.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/plan_messages.h"
#include "supervisor/protocol/result.h"
#include "supervisor/protocol/worker_messages.h"

// The names of a plan's choices, and of a program's phases, in the config, in policies, in the journal and in
// programs.

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

// Keys of notes that the library writes and the supervisor acts on. A program's own notes have other keys.

// The worker asks for another one in its place: a process other than its agent has sent it TERM, the first one, which
// it survives, or its process holds too much that a library leaks. May arrive twice.
inline constexpr std::string_view kTermNote = "elastictrain.term";
// The worker was told to halt and cannot: its device still works for a collective that was ended. Once for each
// Abort.
inline constexpr std::string_view kHeldNote = "elastictrain.held";
// The program wrote more notes than a run keeps. The value says how many and what the limit is.
inline constexpr std::string_view kNotesDropped = "elastictrain.notes_dropped";

// About checkpoints. The values of the first two begin with the step.
inline constexpr std::string_view kCheckpointWritten = "checkpoint_written";  // not more often than every few seconds
inline constexpr std::string_view kCheckpointResumed = "checkpoint_resumed";
inline constexpr std::string_view kCheckpointFailed = "checkpoint_failed";
inline constexpr std::string_view kCheckpointLate = "checkpoint_late";
inline constexpr std::string_view kCheckpointFencedOut = "checkpoint_fenced_out";
inline constexpr std::string_view kCheckpointSkipped = "checkpoint_skipped";
inline constexpr std::string_view kCheckpointUnused = "checkpoint_unused";  // the run starts at its first step
inline constexpr std::string_view kCheckpointNone = "checkpoint_none";
inline constexpr std::string_view kCheckpointUnattached = "checkpoint_unattached";  // nothing was attached to its step

// A topology as users, policies and programs write it: one of its names, or an explicit tree as the list of
// every rank's parent ("1,1,1,2": rank 1 is the root, rank 3 is a child of rank 2).

// Index = rank; the root is its own parent.
using Parents = std::vector<std::uint32_t>;

struct TopologyChoice {
  Topology topology = Topology::kAuto;
  Parents parents;  // instead of the topology's own trees; empty: none
};

inline std::optional<Parents> parents_in(std::string_view text) {
  Parents parents;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::uint32_t parent = 0;
    const auto [next, problem] = std::from_chars(at, end, parent);
    if (problem != std::errc() || (next != end && (*next != ',' || next + 1 == end))) return std::nullopt;
    parents.push_back(parent);
    at = next == end ? end : next + 1;
  }
  if (parents.empty()) return std::nullopt;
  return parents;
}

// Returns nothing if it is neither a name nor a list of numbers. check_tree() checks whether the numbers form a tree.
inline std::optional<TopologyChoice> topology_choice(std::string_view text) {
  if (const auto named = topology_named(text)) return TopologyChoice{*named, {}};
  if (auto parents = parents_in(text)) return TopologyChoice{Topology::kAuto, std::move(*parents)};
  return std::nullopt;
}

inline std::string text_of(Topology topology, const Parents& parents) {
  if (parents.empty()) return std::string(name_of(topology));
  std::string text;
  for (const auto parent : parents) text += (text.empty() ? "" : ",") + std::to_string(parent);
  return text;
}

// kInvalid if `parents` is not a single tree over `size` ranks.
inline Result<void> check_tree(const Parents& parents, std::size_t size) {
  const auto wrong = [](const std::string& what) {
    return Error{ErrorCode::kInvalid, "the explicit topology is not a tree: " + what +
                                          ". Give one parent for each rank, and the root's own number for the root."};
  };
  if (parents.size() != size) {
    return wrong(std::to_string(parents.size()) + " parents for " + std::to_string(size) + " ranks");
  }
  std::size_t roots = 0;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if (parents[rank] >= size) return wrong("rank " + std::to_string(parents[rank]) + " does not exist");
    roots += parents[rank] == rank ? 1 : 0;
  }
  if (roots != 1) return wrong(std::to_string(roots) + " roots");
  std::vector<char> reaches_root(size, 0);
  for (std::uint32_t start = 0; start < size; ++start) {
    Parents path;
    std::uint32_t rank = start;
    while (reaches_root[rank] == 0 && parents[rank] != rank) {
      if (path.size() == size) return wrong("rank " + std::to_string(start) + " leads into a cycle");
      path.push_back(rank);
      rank = parents[rank];
    }
    for (const auto passed : path) reaches_root[passed] = 1;
  }
  return {};
}

}  // namespace elastictrain::protocol
