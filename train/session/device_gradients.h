// Purpose: gradients in the memory of a GPU: waits for the program's streams, sums, their times, and the state that the
// program's update writes there. The lane and all agreement stay on the host's data plane; a device's sums follow it
// within the same step, and the host waits once for all of them.
//
// Ownership: the worker; the device is the program's. Thread: await_input() and reduce() on the thread that reduces,
// the rest on the training thread, finish() when no other thread reduces. Failure: a CUDA error ends the session, or is
// a Status where one is returned.
#pragma once

#include <memory>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/comm/device_interfaces.h"
#include "train/session/collective_gate.h"
#include "train/session/device_side.h"
#include "train/session/host_gradients.h"
#include "train/session/lifecycle.h"
#include "train/session/monitors.h"
#include "train/session/open_step.h"

namespace elastictrain::session {

class DeviceGradients {
 public:
  // `device`: null while the program trains in host memory; chosen before the start.
  DeviceGradients(const std::unique_ptr<DeviceSide>& device, const HostGradients& host, const Seat& seat,
                  const CollectiveGate& gate, Lifecycle& lifecycle)
      : device_(device), host_(host), seat_(seat), gate_(gate), lifecycle_(lifecycle) {}

  void step_begins(Clock::time_point now);
  // The work that `stream` holds now produces the bucket's gradient.
  void mark_input(Bucket& bucket, void* stream);
  // Call it outside of the collective: the work that the program has queued is its computation, and a worker that hangs
  // in it is not waiting for others. Buckets in host memory are always there.
  Status await_input(const Bucket& bucket);
  // The same for the last bucket of a pass. A worker alone, whose gradients are their own sums, waits for all of them;
  // in stream order for the pass before.
  Status await_pass(const OpenStep& step);
  // A time that the device cannot report without waiting is the time at which the host sees it.
  Clock::time_point input_time(const Bucket& bucket);
  Clock::time_point sum_time(const OpenStep& step);  // of its last bucket
  // Starts the sum, behind its input if the data plane can queue it. Later work may be given to the device meanwhile.
  Status reduce(OpenStep& step, Bucket& bucket);
  // Waits for all sums of the step. Call it after await_input(): what the program's streams hold is its computation.
  Status finish(OpenStep& step);
  // After the failure of another collective, whose communicator is being aborted: the memory of the sums is the
  // program's again.
  void abandon();
  void clear(Bucket& bucket);
  // The writes of the program's update are part of the state once its stream has reached this point.
  void mark_state(const OpenStep& step);
  void check(const Status& status);

 private:
  Status start(OpenStep& step, Bucket& bucket);
  comm::DeviceSums& sums() const;
  bool may_run_ahead(const OpenStep& step) const;
  Status await_all(const OpenStep& step);
  Status make_room(const OpenStep& step, const Bucket& bucket, comm::DeviceReduce& reduce);

  const std::unique_ptr<DeviceSide>& device_;
  const HostGradients& host_;
  const Seat& seat_;
  const CollectiveGate& gate_;
  Lifecycle& lifecycle_;
  std::vector<float> weights_;  // of all ranks in the open step; empty: not computed yet
  Generation weights_of_ = 0;
  bool is_summing_ = false;
};

}  // namespace elastictrain::session
