// Purpose: training with replicas that differ: each step's exchange of models in place of the gradients' all-reduce,
// and how all replicas become equal again.
//
// A program that shares no model, or trains on a device, averages gradients, whatever was requested. It does so on all
// workers.
//
// Ownership: the worker. Thread: exchanges on the thread that reduces, the rest on the training thread. Failure: that
// of the communicator.
#pragma once

#include <memory>

#include "supervisor/protocol/result.h"
#include "train/session/collective_gate.h"
#include "train/session/device_access.h"
#include "train/session/extension.h"
#include "train/session/generation.h"
#include "train/session/model_exchange.h"
#include "train/session/state_handover.h"
#include "train/session/step_buckets.h"

namespace elastictrain::session {

class ModelAveraging {
 public:
  struct Parts {
    ModelExchange& models;
    const std::unique_ptr<DeviceSide>& device;
    const Assignment& assignment;
    const CollectiveGate& gate;
    StepLane& lane;
    const StateHandover& handover;
    Extension& extension;
  };
  explicit ModelAveraging(const Parts& parts) : parts_(parts) {}

  bool applies() const;
  protocol::Synchronization synchronization() const;

  // In a step that averages models: the gradient stays as it is, the mean over this worker's samples.
  Status take_local_gradient(OpenStep& step, Bucket& bucket);
  // The same without the exchange: zeros where this worker has no samples.
  static void restore_local_gradient(const OpenStep& step, Bucket& bucket);
  // When a step is divided (again), and when it is committed.
  void drop_correction() { parts_.models.drop_correction(); }
  void apply_correction() { parts_.models.apply_correction(); }

  // For the first step in which gradients are averaged again: runs with its first all-reduce, on whichever thread. The
  // program may still be reading its model, so it is adopted where the training thread waits.
  Status gather_equal_state(OpenStep& step);
  void adopt_equal_state(OpenStep& step);
  // At the end of the data every worker ends with the average of all models.
  Status equalize();

 private:
  Status exchange(OpenStep& step);
  Status average_with_all(bool contributes);
  Status average_in_pairs(bool contributes);

  const Parts parts_;
};

}  // namespace elastictrain::session
