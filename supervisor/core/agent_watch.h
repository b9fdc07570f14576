// Purpose: agents that connect, report, fall silent and are lost.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <set>
#include <string>

#include "supervisor/core/event.h"
#include "supervisor/core/failure_detector.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

class Ending;
class FailureJudge;
class HangDetector;
class HangJudge;
class HostList;
class Links;
class NewcomerJudge;
class Outbox;
class PlainRestart;
struct RunEnd;
struct RunSettings;
struct Startup;
class WorkerControl;

class AgentWatch {
 public:
  AgentWatch(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, RunEnd& end,
             HangDetector& hangs, WorkerControl& workers, FailureJudge& judge, HangJudge& hang_judge, Ending& ending,
             HostList& hosts, Links& links, PlainRestart& plain, NewcomerJudge& newcomers);

  void on(const AgentConnected& event);
  void on(const AgentReported& event);
  void on(const AgentLost& event);
  void lose_agent(Agent& agent, const std::string& reason);
  void note_report(Agent& agent);
  void look_at(AgentId id);
  void watch(Agent& agent);
  const std::set<AgentId>& silent() const { return silent_; }

 private:
  void lose_workers(Agent& agent, const std::string& reason);

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Startup& startup_;
  RunEnd& end_;
  HangDetector& hangs_;
  WorkerControl& workers_;
  FailureJudge& judge_;
  HangJudge& hang_judge_;
  Ending& ending_;
  HostList& hosts_;
  Links& links_;
  PlainRestart& plain_;
  NewcomerJudge& newcomers_;
  FailureDetector detector_;
  std::set<AgentId> silent_;  // given up although their connections are open
};

}  // namespace elastictrain::core
