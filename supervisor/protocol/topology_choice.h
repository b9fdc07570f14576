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
using Fathers = std::vector<std::uint32_t>;

struct TopologyChoice {
  Topology topology = Topology::kAuto;
  Fathers fathers;  // instead of the topology's own trees; empty: none
};

inline std::optional<Fathers> fathers_in(std::string_view text) {
  Fathers fathers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::uint32_t father = 0;
    const auto [next, problem] = std::from_chars(at, end, father);
    if (problem != std::errc() || (next != end && (*next != ',' || next + 1 == end))) return std::nullopt;
    fathers.push_back(father);
    at = next == end ? end : next + 1;
  }
  if (fathers.empty()) return std::nullopt;
  return fathers;
}

// Returns nothing if it is neither a name nor a list of numbers. check_tree() checks whether the numbers form a tree.
inline std::optional<TopologyChoice> topology_choice(std::string_view text) {
  if (const auto named = topology_named(text)) return TopologyChoice{*named, {}};
  if (auto fathers = fathers_in(text)) return TopologyChoice{Topology::kAuto, std::move(*fathers)};
  return std::nullopt;
}

inline std::string text_of(Topology topology, const Fathers& fathers) {
  if (fathers.empty()) return std::string(name_of(topology));
  std::string text;
  for (const auto father : fathers) text += (text.empty() ? "" : ",") + std::to_string(father);
  return text;
}

// kInvalid if `fathers` is not a single tree over `size` ranks.
inline Result<void> check_tree(const Fathers& fathers, std::size_t size) {
  const auto wrong = [](const std::string& what) {
    return Error{ErrorCode::kInvalid, "the explicit topology is not a tree: " + what +
                                          ". Give one parent for each rank, and the root's own number for the root."};
  };
  if (fathers.size() != size) {
    return wrong(std::to_string(fathers.size()) + " parents for " + std::to_string(size) + " ranks");
  }
  std::size_t roots = 0;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if (fathers[rank] >= size) return wrong("rank " + std::to_string(fathers[rank]) + " does not exist");
    roots += fathers[rank] == rank ? 1 : 0;
  }
  if (roots != 1) return wrong(std::to_string(roots) + " roots");
  std::vector<char> reaches_root(size, 0);
  for (std::uint32_t start = 0; start < size; ++start) {
    Fathers path;
    std::uint32_t rank = start;
    while (reaches_root[rank] == 0 && fathers[rank] != rank) {
      if (path.size() == size) return wrong("rank " + std::to_string(start) + " leads into a cycle");
      path.push_back(rank);
      rank = fathers[rank];
    }
    for (const auto passed : path) reaches_root[passed] = 1;
  }
  return {};
}

}  // namespace elastictrain::protocol
