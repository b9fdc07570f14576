#include "train/session/bucket_reducer.h"

#include "train/session/narrow_gradients.h"

namespace elastictrain::session {

Status BucketReducer::reduce(OpenStep& step, Bucket& bucket) {
  const bool is_gradient = bucket.kind == Bucket::Kind::kGradient;
  if (is_gradient && !bucket.on_device) return reduce_host_gradient(step, bucket);
  if (auto status = send_lane(step); !status) return status;
  return is_gradient ? parts_.device.reduce(step, bucket) : parts_.own_data.share(bucket);
}

// The lane rides on the step's first sum in host memory. If the program has none, the lane has a sum of its own.
Status BucketReducer::send_lane(OpenStep& step) {
  if (step.lane_sent) return {};
  Bucket nothing;
  return reduce_host_gradient(step, nothing);
}

Status BucketReducer::reduce_host_gradient(OpenStep& step, Bucket& bucket) {
  const bool is_first = !step.lane_sent && !step.is_local;
  NarrowGradients::widen(step, bucket);
  Status status = step.averages ? parts_.averaging.take_local_gradient(step, bucket) : parts_.host.reduce(step, bucket);
  if (status) NarrowGradients::round(bucket);
  return status && is_first ? after_first_sum(step) : status;
}

Status BucketReducer::after_first_sum(OpenStep& step) {
  if (!step.averages && parts_.course.replicas_differ()) {
    if (auto status = parts_.averaging.gather_equal_state(step); !status) return status;
  }
  return parts_.extension.after_first_sum();
}

}  // namespace elastictrain::session
