// Purpose: all components of one worker. A process that becomes another worker emplaces a new one, so nothing of the
// old worker is left. What belongs to the program and its process is in program.h.
//
// Each component owns its fields and gets references to those that it uses; the order here is the order of
// construction.
//
// Ownership: the session. Thread: the training thread, unless a component states otherwise; heartbeat() on the control
// thread.
#pragma once

#include <memory>
#include <vector>

#include "train/session/audit.h"
#include "train/session/checkpoints.h"
#include "train/session/collective_gate.h"
#include "train/session/control_plane.h"
#include "train/session/elsewhere.h"
#include "train/session/extension.h"
#include "train/session/generation.h"
#include "train/session/generation_change.h"
#include "train/session/gradients.h"
#include "train/session/lifecycle.h"
#include "train/session/measurements.h"
#include "train/session/model_averaging.h"
#include "train/session/program.h"
#include "train/session/program_collectives.h"
#include "train/session/run_progress.h"
#include "train/session/state_handover.h"
#include "train/session/step_runner.h"
#include "train/session/supervisor_messages.h"

namespace elastictrain::session {

struct WorkerComponents {
  // `plane`: null without a launcher. `is_successor`: the process was another worker before.
  WorkerComponents(Program& program, Lifecycle& lifecycle, ControlPlane* plane, WorkerId id, bool is_successor);
  WorkerComponents(const WorkerComponents&) = delete;
  WorkerComponents& operator=(const WorkerComponents&) = delete;

  std::vector<protocol::WorkerToAgent> heartbeat();
  // Ends everything that the exit of a process would end, and reports what only this worker knows.
  void close();

  const WorkerId id;
  Reports reports;
  AssignmentExchange exchange;
  RunProgress run_progress;
  CollectiveGate gate;
  StepLane lane;
  Measurements measurements;
  Audits audits;
  Checkpoints checkpoints;
  Replicas replicas;
  StateHandover handover;
  NarrowGradients narrow;
  HostGradients host;
  DeviceGradients device;
  ElsewhereSums elsewhere;
  ProgramData own_data;
  std::unique_ptr<Extension> extension;
  ModelAveraging averaging;
  BucketReducer reducer;
  KeyedValues keyed;
  StepRunner runner;  // its thread uses what is above
  AssignmentView view;
  GenerationChange generation_change;
  Recovery recovery;
  Requests requests;
  Notes notes;
};

}  // namespace elastictrain::session
