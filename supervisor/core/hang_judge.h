// Purpose: acts on members that make no progress: asks what they wait for, reconnects the data plane, ends the worker
// at fault.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/event.h"
#include "supervisor/core/failure_budget.h"
#include "supervisor/core/hang_detector.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/settings.h"

namespace elastictrain::core {

struct Change;
class FailureJudge;
class Halt;
class HostHealth;
class NewcomerJudge;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Training;
class WorkerControl;

class HangJudge {
 public:
  HangJudge(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
            Recovery& recovery, RunEnd& end, HangDetector& hangs, HostHealth& health, WorkerControl& workers,
            FailureJudge& judge, Halt& halt, NewcomerJudge& newcomers);

  void act_on(const HangFinding& finding);
  void end_hung(Worker& worker, const std::string& what, FailureClass as = FailureClass::kHang);
  void on(const AgentAnswered& event);

 private:
  void stacks_known(const AgentAnswered& event);
  void collectives_known(const AgentAnswered& event);
  bool is_waited_for(WorkerId id) const;
  void journal_hang(const Worker& worker, const HangFinding& finding);
  void ask_about_collectives(WorkerId doubtful);
  void reconnect_all(const HangFinding& finding);
  bool is_out_of_sight(const Worker& worker) const;
  std::vector<WorkerId> max_doubtful() const;

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  RunEnd& end_;
  HangDetector& hangs_;
  HostHealth& health_;
  WorkerControl& workers_;
  FailureJudge& judge_;
  Halt& halt_;
  NewcomerJudge& newcomers_;
  std::optional<Instant> collectives_asked_;
};

}  // namespace elastictrain::core
