// Purpose: gradients in host memory: this worker's input to each sum, its copy for a repetition, and the gradient
// variance. Ownership: the worker; the copies are the program's memory. Thread: prepare_memory() on the training
// thread, reduce() on the thread that reduces. Failure: that of the communicator.
#pragma once

#include <vector>

#include "supervisor/protocol/result.h"
#include "train/session/collective_gate.h"
#include "train/session/input_copies.h"
#include "train/session/open_step.h"
#include "train/session/seat.h"
#include "train/session/step_lane.h"

namespace elastictrain::session {

class HostGradients {
 public:
  // `may_repeat`: a failed sum may be repeated, which needs copies of its inputs.
  HostGradients(bool may_repeat, InputCopies& copies, const Seat& seat, const CollectiveGate& gate, StepLane& lane)
      : may_repeat_(may_repeat), copies_(copies), seat_(seat), gate_(gate), lane_(lane) {}

  bool keeps_inputs() const { return may_repeat_ && seat_.world_size() > 1; }
  // Touches the memory that the reduction needs, on the training thread, while earlier buckets are reduced. A joiner
  // does it while the others compute: its first batch is empty, and page faults in its second step would delay all.
  void prepare_memory(const OpenStep& step, Bucket& bucket);
  // The step's first sum in host memory carries the lane.
  Status reduce(OpenStep& step, Bucket& bucket);

 private:
  Status sum(OpenStep& step, Bucket& bucket);
  void reserve_copy(Bucket& bucket);
  void prepare_input(const OpenStep& step, Bucket& bucket, comm::ReduceOptions& options);
  void square_into(const Bucket& bucket);
  Status add_variance(OpenStep& step, const Bucket& bucket, float scale);

  const bool may_repeat_;
  InputCopies& copies_;
  const Seat& seat_;
  const CollectiveGate& gate_;
  StepLane& lane_;
  std::vector<float> squares_;  // of a bucket, while its variance is measured
};

}  // namespace elastictrain::session
