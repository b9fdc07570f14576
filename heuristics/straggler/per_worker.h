// Purpose: a detector's memory of each worker, aligned with the members of the last view. A worker that leaves is
// forgotten. While membership does not change, follow() costs one comparison per worker.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heuristics/policy/view.h"

namespace elastictrain::heuristics {

template <class Memory>
class PerWorker {
 public:
  void follow(const std::vector<WorkerView>& members) {
    if (is_lined_up(members)) return;
    std::unordered_map<std::uint64_t, Memory> old;
    for (std::size_t i = 0; i < ids_.size(); ++i) old.emplace(ids_[i], std::move(memories_[i]));
    ids_.clear();
    memories_.clear();
    for (const WorkerView& member : members) {
      const auto known = old.find(member.id);
      ids_.push_back(member.id);
      memories_.push_back(known == old.end() ? Memory{} : std::move(known->second));
    }
  }
  Memory& operator[](std::size_t place) { return memories_[place]; }
  const Memory& operator[](std::size_t place) const { return memories_[place]; }
  auto begin() { return memories_.begin(); }
  auto end() { return memories_.end(); }

 private:
  bool is_lined_up(const std::vector<WorkerView>& members) const {
    if (members.size() != ids_.size()) return false;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (members[i].id != ids_[i]) return false;
    }
    return true;
  }

  std::vector<std::uint64_t> ids_;
  std::vector<Memory> memories_;
};

}  // namespace elastictrain::heuristics
