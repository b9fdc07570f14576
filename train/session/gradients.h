// Purpose: gradients on their way through a step's sum, in host memory (single precision or 16 bits) and in the
// memory of a GPU: input of each sum, its copy for a repetition, and its times.
#pragma once

#include <memory>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/comm/device_interfaces.h"
#include "train/session/collective_gate.h"
#include "train/session/device_access.h"
#include "train/session/generation.h"
#include "train/session/lifecycle.h"
#include "train/session/monitors.h"
#include "train/session/step_buckets.h"
#include "train/session/step_memory.h"

// Gradients in 16 bits in host memory: memory for their values in single precision, in which they are summed
// and kept, and the way there and back.
//
// Ownership: the worker. Thread: make_room() on the training thread, the rest on the thread that reduces. Failure:
// none.

namespace elastictrain::session {

class NarrowGradients {
 public:
  // Nothing happens to buckets in single precision.
  void make_room(Bucket& bucket);
  // Before a sum, unless its input was kept or is nothing.
  static void widen(bool has_samples, Bucket& bucket);
  // After it: every value is rounded once.
  static void round(const Bucket& bucket);

 private:
  InputCopies wide_;
};

// What one rank puts into a sum in host memory, and its copy for a repetition. Ownership: the copies are another's.
// Thread: one at a time; prepare() allocates nothing after make_room(). Failure: std::bad_alloc.

class HostInputs {
 public:
  struct Input {
    bool has_samples = false;
    bool keeps = false;  // the sum may be repeated
    float scale = 1;     // with samples
  };

  explicit HostInputs(InputCopies& copies) : copies_(copies) {}

  void make_room(Bucket& bucket) { copies_.make_room(bucket.copy, bucket.index, bucket.count); }
  // The gradient as it was before a failed sum of this step, or nothing, or what is there now.
  void prepare(const Input& input, Bucket& bucket, comm::ReduceOptions& options);
  void keep(Bucket& bucket);

 private:
  InputCopies& copies_;
};

// Gradients in host memory: this worker's input to each sum, its copy for a repetition, and the gradient
// variance. Ownership: the worker; the copies are the program's memory. Thread: prepare_memory() on the training
// thread, reduce() on the thread that reduces. Failure: that of the communicator.

class HostGradients {
 public:
  // `may_repeat`: a failed sum may be repeated, which needs copies of its inputs.
  HostGradients(bool may_repeat, InputCopies& copies, const Assignment& assignment, const CollectiveGate& gate,
                StepLane& lane)
      : may_repeat_(may_repeat), inputs_(copies), assignment_(assignment), gate_(gate), lane_(lane) {}

  bool may_repeat() const { return may_repeat_; }
  bool keeps_inputs() const { return may_repeat_ && assignment_.world_size() > 1; }
  // Touches the memory that the reduction needs, on the training thread, while earlier buckets are reduced. A joiner
  // does it while the others compute: its first batch is empty, and page faults in its second step would delay all.
  void prepare_memory(const OpenStep& step, Bucket& bucket);
  // As the sum does that copies its input, before it begins.
  void keep_input(Bucket& bucket);
  // The step's first sum in host memory carries the lane.
  Status reduce(OpenStep& step, Bucket& bucket);

 private:
  Status sum(OpenStep& step, Bucket& bucket);
  void square_into(const Bucket& bucket);
  Status add_variance(OpenStep& step, const Bucket& bucket, float scale);

  const bool may_repeat_;
  HostInputs inputs_;
  const Assignment& assignment_;
  const CollectiveGate& gate_;
  StepLane& lane_;
  std::vector<float> squares_;  // of a bucket, while its variance is measured
};

// Gradients in the memory of a GPU: waits for the program's streams, sums, their times, and the state that the
// program's update writes there. The lane and all agreement stay on the host's data plane; a device's sums follow it
// within the same step, and the host waits once for all of them.
//
// Ownership: the worker; the device is the program's. Thread: await_input() and reduce() on the thread that reduces,
// the rest on the training thread, finish() when no other thread reduces. Failure: a CUDA error ends the session, or is
// a Status where one is returned.

class DeviceGradients {
 public:
  // `device`: null while the program trains in host memory; chosen before the start.
  DeviceGradients(const std::unique_ptr<DeviceSide>& device, const HostGradients& host, const Assignment& assignment,
                  const CollectiveGate& gate, Lifecycle& lifecycle)
      : device_(device), host_(host), assignment_(assignment), gate_(gate), lifecycle_(lifecycle) {}

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
  // As HostGradients::keep_input(); waits for the work that produces the gradient, and for the copy.
  Status keep_input(Bucket& bucket);
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
  const Assignment& assignment_;
  const CollectiveGate& gate_;
  Lifecycle& lifecycle_;
  std::vector<float> weights_;  // of all ranks in the open step; empty: not computed yet
  Generation weights_of_ = 0;
  bool is_summing_ = false;
};

}  // namespace elastictrain::session
