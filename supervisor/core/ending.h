// Purpose: ends a run: because its program finished, on request, or after a failure.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"
#include "supervisor/core/run_end.h"

namespace elastictrain::core {

class AgentWatch;
class Audit;
struct Change;
class ChangeRunner;
class Completion;
class HostList;
class Outbox;
struct Recovery;
struct RunEnd;
struct RunSettings;
struct Startup;
struct TakeoverState;
struct Training;
class WorkerControl;

class Ending {
 public:
  Ending(const RunSettings& settings, Roster& roster, Outbox& out, Training& training, Change& change,
         Recovery& recovery, RunEnd& end, TakeoverState& resume, Audit& audit, WorkerControl& workers, HostList& hosts,
         AgentWatch& agents, ChangeRunner& runner, Completion& completion, Startup& startup);

  void begin_end(EndMode mode, int status, std::string reason);
  void fail_run(int status, const std::string& reason);
  void member_finished();
  void dismiss_others();
  void end_without_members();
  void advance_end();
  void end_run();
  // The program has finished: its processes have the grace to end by themselves.
  void limit_finish();
  void grace_expired();
  void account_arrived();

 private:
  void stop_everybody();
  bool awaits_accounts();
  bool returns_samples() const;
  void drain_members();

  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Training& training_;
  Change& change_;
  Recovery& recovery_;
  RunEnd& end_;
  TakeoverState& resume_;
  Audit& audit_;
  WorkerControl& workers_;
  HostList& hosts_;
  AgentWatch& agents_;
  ChangeRunner& runner_;
  Completion& completion_;
  Startup& startup_;
  std::uint64_t accounts_timer_ = 0;  // kEnd, while the sample accounts of the silent agents are awaited
};

}  // namespace elastictrain::core
