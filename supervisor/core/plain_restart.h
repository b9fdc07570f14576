// Purpose: starts a program that does not use the library again after a failure: its processes cannot continue without
// each other, so all of them end and all are started, as often as the settings allow. As torchrun's --max-restarts.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <string>

#include "supervisor/core/roster.h"

namespace elastictrain::core {

struct Change;
class Outbox;
struct RunSettings;
struct Startup;
class WorkerControl;

class PlainRestart {
 public:
  PlainRestart(const RunSettings& settings, Roster& roster, Outbox& out, Startup& startup, Change& change,
               WorkerControl& workers);

  // A process failed, `why` says how. Ends the others; false if no restart is left: the run fails.
  bool begin(const std::string& why);
  // Processes of before the restart are still ending: none is started meanwhile.
  bool waits();

 private:
  const RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  Startup& startup_;
  Change& change_;
  WorkerControl& workers_;
};

}  // namespace elastictrain::core
