// Purpose: a topology as users, policies and programs write it: one of its names, or an explicit tree as the list of
// every rank's parent ("1,1,1,2": rank 1 is the root, rank 3 is a child of rank 2).
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/names.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::protocol {

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
