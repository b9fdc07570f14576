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
struct DesiredState;
class Outbox;
struct RunSettings;
struct Startup;
struct Training;
class WorkerControl;

class Joiners {
 public:
  Joiners(RunSettings& settings, Roster& roster, Outbox& out, DesiredState& desired, Startup& startup,
          const Training& training, Change& change, Audit& audit, WorkerControl& workers);

  void on_message(Worker& worker, const protocol::WorkerHello& message);
  void on_message(Worker& worker, const protocol::WorkerReady& message);
  void on_message(Worker& worker, const protocol::WorkerAsksEpoch& message);
  void on(const WorkerSpawnFailed& event);

 private:
  std::optional<std::string> mismatch(const protocol::WorkerReady& message) const;
  std::optional<std::string> batch_mismatch(const protocol::WorkerReady& message) const;
  // Samples of a worker in a step, as the program or the user's batch for it says; 0: as the settings say.
  std::uint32_t batch_of(const protocol::WorkerReady& message) const;
  void take_reference(const protocol::WorkerReady& message);

  RunSettings& settings_;
  Roster& roster_;
  Outbox& out_;
  DesiredState& desired_;
  Startup& startup_;
  const Training& training_;
  Change& change_;
  Audit& audit_;
  WorkerControl& workers_;
  std::optional<protocol::WorkerReady> reference_;  // the state layout that every worker must have
};

}  // namespace elastictrain::core
