// Purpose: the edge's data about each worker: which agent it belongs to, and how to label its output.
// Ownership and thread: those of the supervisor. Workers that have exited are removed.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/protocol/agent_messages.h"

namespace elastictrain {

struct WorkerEntry {
  AgentId agent;
  std::string host;
  std::int64_t rank = -1;  // -1: in no generation yet
  std::uint32_t local_rank = 0;
  std::int64_t pid = 0;
};

class WorkerTable {
 public:
  // Data of the journal of a run that is taken over; process ids are reported by the workers.
  void restore(const core::Resumed& resumed);
  // Before the first generation a worker is labelled with the rank that it was started with.
  void spawned(const core::SpawnWorker& spawn, bool first_generation);
  void set_pid(WorkerId worker, std::int64_t pid);
  // The worker's own report counts if its agent has not reported it to this supervisor.
  void adopt_pid(WorkerId worker, std::int64_t pid);
  void remove(WorkerId worker) { entries_.erase(worker); }
  void remove_all_of(AgentId agent);

  // Ranks change when a plan is committed, not when it is prepared.
  void planned(const protocol::GenerationPlan& plan);
  void committed(Generation generation);

  const WorkerEntry* find(WorkerId worker) const;
  std::set<AgentId> agents_on(const std::string& host) const;
  // The agent of the worker that has rank 0 now, or will have at the start; 0 if no worker has.
  AgentId agent_of_rank_zero() const;
  Generation generation() const { return generation_; }
  std::unordered_map<WorkerId, std::int64_t> pids() const;
  const std::unordered_map<WorkerId, WorkerEntry>& entries() const { return entries_; }

 private:
  struct Place {
    WorkerId worker;
    std::uint32_t rank;
    std::uint32_t local_rank;
  };
  std::unordered_map<WorkerId, WorkerEntry> entries_;
  std::vector<Place> plan_;
  Generation planned_ = 0;
  Generation generation_ = 0;
};

}  // namespace elastictrain
