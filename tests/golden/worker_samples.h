// Purpose: the worker samples that the agents of a scenario report for workers that train, block or are stopped: one
// sample per worker every 250 ms, as launcher/agent makes them. Workers that the scenario does not mention report
// nothing.
#pragma once

#include <cstdint>
#include <map>

#include "supervisor/protocol/agent_messages.h"

namespace elastictrain::core {

class WorkerSamples {
 public:
  static constexpr Millis kPeriod{250};

  void spawned(WorkerId worker, AgentId agent) { agents_[worker] = agent; }
  void steps(WorkerId worker, Millis step_time);
  // The worker stays at one place of its step. `works`: it also uses CPU.
  void stands(WorkerId worker, protocol::StepPlace place, bool works);
  void stops(WorkerId worker);
  // It trains, and its next heartbeats say that it has committed this step, of this epoch.
  void at(WorkerId worker, Step step, std::uint64_t epoch);

  // Advances by one period.
  protocol::AgentReport report(AgentId agent, const std::map<WorkerId, Generation>& assignments);

 private:
  struct Worker {
    Millis step_time{0};  // 0: blocked
    Millis elapsed{0};    // of the open step
    Millis quiet{0};
    bool stopped = false;
    bool works = true;
    std::uint64_t cpu_ms = 0;
    protocol::WorkerHeartbeat heartbeat;
  };

  void advance(Worker& worker);

  std::map<WorkerId, AgentId> agents_;
  std::map<WorkerId, Worker> workers_;
};

}  // namespace elastictrain::core
