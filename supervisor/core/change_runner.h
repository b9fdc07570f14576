// Purpose: carries a change out up to its commit: prepare, commit, cancel, try again, give up.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

class Audit;
struct Change;
struct DesiredState;
class Ending;
class Exclusion;
class HangDetector;
class NewcomerJudge;
class Outbox;
class PlanMaker;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Training;
class WorkerControl;

class ChangeRunner {
 public:
  ChangeRunner(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
               Recovery& recovery, DesiredState& desired, RunEnd& end, HangDetector& hangs, Audit& audit,
               PlanMaker& plans, WorkerControl& workers, Exclusion& exclusion, Ending& ending,
               NewcomerJudge& newcomers);

  void prepare();
  void commit();
  void cancel(const std::string& why);
  void prepare_timed_out();
  void on_message(Worker& worker, const protocol::WorkerPrepared& message);
  void on_message(Worker& worker, const protocol::WorkerPrepareFailed& message);
  void retry();

 private:
  void prepare_failed(const std::string& why);
  void keep_leavers();
  void give_up_change(const std::string& why);

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  DesiredState& desired_;
  RunEnd& end_;
  HangDetector& hangs_;
  Audit& audit_;
  PlanMaker& plans_;
  WorkerControl& workers_;
  Exclusion& exclusion_;
  Ending& ending_;
  NewcomerJudge& newcomers_;
};

}  // namespace elastictrain::core
