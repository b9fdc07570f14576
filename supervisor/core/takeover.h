// Purpose: takes a run over from a supervisor that is gone. Its agents and workers were not notified: they train on,
// come back one by one, and each repeats its latest messages.
//
// Ownership and thread: those of the state machine.
#pragma once

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

class Audit;
struct DesiredState;
class Ending;
class Halt;
class HangDetector;
class Invariants;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Startup;
struct TakeoverState;
struct Training;
class WorkerControl;

class Takeover {
 public:
  Takeover(RunSettings& settings, Roster& roster, Outbox& out, Training& training, Recovery& recovery,
           DesiredState& desired, Startup& startup, RunEnd& end, TakeoverState& resume, HangDetector& hangs,
           Invariants& invariants, Audit& audit, WorkerControl& workers, Halt& halt, Ending& ending);

  void on(const Resumed& event);
  void advance();

 private:
  void fence_lost_start(const Resumed& event);
  void restore_roster(const Resumed& event);
  void restore_generation(const Resumed& event);

  RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Recovery& recovery_;
  DesiredState& desired_;
  Startup& startup_;
  RunEnd& end_;
  TakeoverState& resume_;
  HangDetector& hangs_;
  Invariants& invariants_;
  Audit& audit_;
  WorkerControl& workers_;
  Halt& halt_;
  Ending& ending_;
};

}  // namespace elastictrain::core
