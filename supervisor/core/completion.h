// Purpose: the end of a change: every member trains in the new generation and every leaver has left.
//
// Ownership and thread: those of the state machine.
#pragma once

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
struct DesiredState;
class Ending;
class FailureJudge;
class HangDetector;
class HostJudge;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Startup;
struct Training;

class Completion {
 public:
  Completion(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
             Recovery& recovery, DesiredState& desired, Startup& startup, RunEnd& end, HangDetector& hangs,
             FailureJudge& judge, HostJudge& host_judge, Ending& ending);

  void complete();

 private:
  void begin_generation();

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  DesiredState& desired_;
  Startup& startup_;
  RunEnd& end_;
  HangDetector& hangs_;
  FailureJudge& judge_;
  HostJudge& host_judge_;
  Ending& ending_;
};

}  // namespace elastictrain::core
