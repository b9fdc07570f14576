// Purpose: new workers until they can be members: they join the run, report that they are ready, or fail.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <optional>
#include <string>

#include "supervisor/core/event.h"
#include "supervisor/core/roster.h"

namespace elastictrain::core {

class Audit;
struct Change;
class Outbox;
struct Startup;
class WorkerControl;

class Joiners {
 public:
  Joiners(Roster& roster, Outbox& out, Startup& startup, Change& change, Audit& audit, WorkerControl& workers);

  void on_message(Worker& worker, const protocol::WorkerHello& message);
  void on_message(Worker& worker, const protocol::WorkerReady& message);
  void on(const WorkerSpawnFailed& event);

 private:
  std::optional<std::string> mismatch(const protocol::WorkerReady& message) const;

  Roster& roster_;
  Outbox& out_;
  Startup& startup_;
  Change& change_;
  Audit& audit_;
  WorkerControl& workers_;
  std::optional<protocol::WorkerReady> reference_;  // the state layout that every worker must have
};

}  // namespace elastictrain::core
