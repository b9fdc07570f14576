// Purpose: the one hook for what a program may use besides training (train/peers). The session begins and ends it with
// each worker, calls it behind a step's first sum and where models are averaged in pairs, and knows nothing else of it.
//
// Ownership: the worker. Thread: after_first_sum() and average_in_pairs() on the thread that reduces, the rest on the
// training thread. Failure: begin() throws SessionError, the collectives fail as those of the communicator.
#pragma once

#include <memory>

#include "supervisor/protocol/result.h"
#include "train/session/collective_gate.h"
#include "train/session/environment.h"
#include "train/session/generation.h"
#include "train/session/model_exchange.h"
#include "train/session/run_progress.h"

namespace elastictrain::session {

// What an extension sees of its worker.
struct ExtensionHost {
  const Environment& environment;
  const Assignment& assignment;
  const RunProgress& run_progress;
  const CollectiveGate& gate;
  ModelExchange& models;
  bool& is_enabled;  // the program's choice, kept when its process becomes another worker
};

class Extension {
 public:
  virtual ~Extension() = default;

  // The process became another worker, or its worker ends.
  virtual void begin() = 0;
  virtual void end() = 0;
  // Behind the first sum of each step. Costs nothing unless the program enabled it.
  virtual Status after_first_sum() = 0;
  // Keeps the correction of this worker's model in `models`.
  virtual Status average_in_pairs(bool contributes) = 0;
  // The same between two meetings, with the last model of another worker that has arrived here, if there is one. Waits
  // for nothing.
  virtual void average_with_read_model() = 0;
  // Others may read this worker's model as it is now.
  virtual void publish_model() = 0;
};

std::unique_ptr<Extension> make_extension(const ExtensionHost& host);  // in train/peers

}  // namespace elastictrain::session
