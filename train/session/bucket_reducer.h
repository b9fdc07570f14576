// Purpose: reduces one bucket by the mechanism that its kind and the step need, with what rides on the step's first
// sum: the control lane, the return to equal replicas, and what other components exchange once in each generation.
// Ownership: the worker. Thread: the training thread, or the reducer's. Failure: that of the collective.
#pragma once

#include "supervisor/protocol/result.h"
#include "train/session/course.h"
#include "train/session/device_gradients.h"
#include "train/session/extension.h"
#include "train/session/host_gradients.h"
#include "train/session/model_averaging.h"
#include "train/session/open_step.h"
#include "train/session/program_data.h"

namespace elastictrain::session {

class BucketReducer {
 public:
  struct Parts {
    const Course& course;
    HostGradients& host;
    DeviceGradients& device;
    ProgramData& own_data;
    ModelAveraging& averaging;
    Extension& extension;
  };
  explicit BucketReducer(const Parts& parts) : parts_(parts) {}

  Status reduce(OpenStep& step, Bucket& bucket);

 private:
  Status reduce_host_gradient(OpenStep& step, Bucket& bucket);
  Status send_lane(OpenStep& step);
  Status after_first_sum(OpenStep& step);

  const Parts parts_;
};

}  // namespace elastictrain::session
