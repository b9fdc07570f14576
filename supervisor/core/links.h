// Purpose: connections to hosts that break and recover, and lost hosts that are tried again.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

class AgentWatch;
struct Change;
class FailureJudge;
class HostHealth;
class HostJudge;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Startup;
class WorkerControl;

class Links {
 public:
  Links(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, Change& change, Recovery& recovery,
        RunEnd& end, HostHealth& health, WorkerControl& workers, FailureJudge& judge, HostJudge& host_judge,
        AgentWatch& agents);

  void cut_off(Agent& agent, const std::string& reason);
  void doubt_others(AgentId witness);
  void reconnect_timed_out(AgentId id);
  void come_back(Agent& agent, const std::vector<WorkerId>& living);
  void vanished(const Worker& gone);
  void schedule_relaunch(Agent& agent);
  void relaunch(AgentId id);

 private:
  void resend(Worker& worker);
  Millis first_delay(const Agent& agent) const;

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Startup& startup_;
  Change& change_;
  Recovery& recovery_;
  RunEnd& end_;
  HostHealth& health_;
  WorkerControl& workers_;
  FailureJudge& judge_;
  HostJudge& host_judge_;
  AgentWatch& agents_;
};

}  // namespace elastictrain::core
