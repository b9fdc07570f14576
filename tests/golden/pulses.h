// Purpose: what the agents of a story report about workers that train, stand still or are stopped: one pulse for each
// every 250 ms, as launcher/agent makes them. Workers that the story does not mention report nothing.
#pragma once

#include <cstdint>
#include <map>

#include "supervisor/protocol/message.h"

namespace elastictrain::core {

class Pulses {
 public:
  static constexpr Millis kPeriod{250};

  void spawned(WorkerId worker, AgentId agent) { agents_[worker] = agent; }
  void steps(WorkerId worker, Millis step_time);
  // Sits in one place of its step; `works`: and uses CPU.
  void stands(WorkerId worker, protocol::StepPlace place, bool works);
  void stops(WorkerId worker);

  // One period later.
  protocol::AgentReport report(AgentId agent, const std::map<WorkerId, Generation>& seats);

 private:
  struct Worker {
    Millis step_time{0};  // 0: stands
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
