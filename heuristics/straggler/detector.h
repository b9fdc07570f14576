// Purpose: the interface of straggler detectors, their memory of each worker, and slow hosts from slow workers.
// Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heuristics/policy/view.h"

// Finds the slow workers of a job by the time that each needs before the collective. Several methods by name.
//
// A detector has a memory; clone() copies it, so that it can be part of a policy's state. Pure: no clock, no I/O. Times
// in seconds. Members without new steps are skipped.

namespace elastictrain::heuristics {

// A worker that is slow now.
struct SlowWorker {
  std::uint64_t worker = 0;
  std::uint32_t rank = 0;
  std::uint32_t host = 0;    // index into ClusterView::hosts
  double slowdown = 1;       // its time per sample relative to the others'
  double since_s = 0;        // when the slowness began
  std::uint64_t steps = 0;   // since then
  std::string because = "";  // the numbers, for the reason: "1.31 times the others' time, over 14 steps"
};

class Detector {
 public:
  virtual ~Detector() = default;
  virtual std::unique_ptr<Detector> clone() const = 0;
  // Processes one view. Returns the slow workers by rank.
  virtual std::vector<SlowWorker> observe(const JobView& job, double now_s) = 0;
  // The slowdown of each member of the last view, in its order; 1 if unknown.
  virtual const std::vector<double>& slowdowns() const = 0;
};

// The ⌈n/2⌉-th smallest, so that one slow worker of two or two of four do not shift it; 0 for no values. Reorders.
double lower_median(std::vector<double>& values);
// With the mean of the middle two, as in the papers' code; 0 for no values. Reorders.
double middle_median(std::vector<double>& values);

// A detector's memory of each worker, aligned with the members of the last view. A worker that leaves is
// forgotten. While membership does not change, follow() costs one comparison per worker.

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

// Finds hosts on which all workers are slow: then the host is the cause, not a worker.
//
// Pure.

struct SlowHost {
  std::uint32_t host = 0;  // index into ClusterView::hosts
  std::vector<std::uint64_t> workers;
  double min_slowdown = 1;  // of its workers
  double max_slowdown = 1;
};

// A host with several workers of the job, of which at least one is reported slow and all are slower than the others by
// at least half of `min_slowdown`. Never the job's only host.
std::vector<SlowHost> slow_hosts(const JobView& job, const std::vector<SlowWorker>& slow,
                                 const std::vector<double>& slowdowns, double min_slowdown);

std::string host_name(const ClusterView& view, std::uint32_t host);

}  // namespace elastictrain::heuristics
