// Purpose: the slots on which a process of a run exists or may exist. A slot is held from the order to start a worker
// there until its process has ended, or can exist no more: an agent that lost its supervisor ends its workers after the
// run's orphan grace. Pure: the time is an argument.
//
// Ownership: by the process of a run; it outlives the supervisor of a run that is suspended. Thread: any, one at a
// time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/cluster/lease_protocol.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::cluster {

class Holds {
 public:
  void started(WorkerId worker, AgentId agent, const std::string& host, std::uint32_t slot);
  void ended(WorkerId worker, AgentId agent);  // as this agent says
  // No supervisor can reach the agent: its workers may live until `when` at most.
  void out_of_reach(AgentId agent, Instant when);
  // It is back, and only these live.
  void back(AgentId agent, const std::vector<WorkerId>& living);
  // Forgets what cannot exist any more.
  void pass(Instant now);

  bool empty() const { return held_.empty(); }
  bool has(WorkerId worker) const { return held_.contains(worker); }
  // When the next one is given up.
  std::optional<Instant> next() const;
  std::vector<HostSlots> slots() const;

 private:
  struct Held {
    AgentId agent;
    std::string host;
    std::uint32_t slot = 0;
    std::optional<Instant> until;  // nothing: as long as its process has not ended
  };
  std::map<WorkerId, Held> held_;
};

}  // namespace elastictrain::cluster
