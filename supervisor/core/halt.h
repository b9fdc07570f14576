// Purpose: from a loss to the moment at which every remaining worker has halted: a fence ends every collective, every
// worker reports its last step, and the holders of the newest state are known.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

class AgentWatch;
struct Change;
class ChangeRunner;
struct DesiredState;
class FailureJudge;
class HangDetector;
class HangJudge;
class Links;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Training;
class WorkerControl;

class Halt {
 public:
  Halt(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change, Recovery& recovery,
       DesiredState& desired, RunEnd& end, HangDetector& hangs, FailureJudge& judge, HangJudge& hang_judge,
       ChangeRunner& runner, AgentWatch& agents, Links& links, WorkerControl& workers);

  void recover(const std::string& why);
  void begin_recovery(const std::string& why);
  void on_message(Worker& worker, const protocol::WorkerHalted& message);
  void halt_timed_out();
  void settle();
  void seat_survivors();

 private:
  void merge_change();
  void halted_by_itself(Worker& worker, const protocol::WorkerHalted& message);
  void journal_halted(const Worker& worker, const protocol::WorkerHalted& message);

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  DesiredState& desired_;
  RunEnd& end_;
  HangDetector& hangs_;
  FailureJudge& judge_;
  HangJudge& hang_judge_;
  ChangeRunner& runner_;
  AgentWatch& agents_;
  Links& links_;
  WorkerControl& workers_;
};

}  // namespace elastictrain::core
