#include "train/session/model_averaging.h"

#include <algorithm>
#include <utility>

namespace elastictrain::session {

bool ModelAveraging::applies() const {
  return !parts_.device && parts_.assignment.synchronization != protocol::Synchronization::kGradients &&
         parts_.models.has_model();
}

protocol::Synchronization ModelAveraging::synchronization() const {
  return applies() ? parts_.assignment.synchronization : protocol::Synchronization::kGradients;
}

Status ModelAveraging::take_local_gradient(OpenStep& step, Bucket& bucket) {
  if (!step.lane_sent) {
    if (auto status = exchange(step); !status) return status;
  }
  restore_local_gradient(step, bucket);
  return {};
}

void ModelAveraging::restore_local_gradient(const OpenStep& step, Bucket& bucket) {
  if (!step.has_samples()) {
    std::fill_n(bucket.data, bucket.count, 0.0F);
  } else if (bucket.copied) {
    std::ranges::copy(bucket.copy, bucket.data);
  }
}

Status ModelAveraging::exchange(OpenStep& step) {
  step.lane_sent = true;
  if (step.is_local) {
    parts_.extension.average_with_read_model();
    return {};
  }
  return parts_.gate.run("exchange of models", [&] {
    const bool contributes = parts_.handover.own_model_counts();
    const bool in_pairs = parts_.assignment.synchronization == protocol::Synchronization::kPairAveraging;
    return in_pairs ? average_in_pairs(contributes) : average_with_all(contributes);
  });
}

Status ModelAveraging::average_with_all(bool contributes) {
  Status status = parts_.models.average(*parts_.assignment.communicator, parts_.lane.fill(), contributes);
  if (status) parts_.models.keep_correction(parts_.assignment.averaging_weight);
  return status;
}

// The lane goes last: no worker has it before every pair is done, so a swap that failed anywhere counts nowhere.
Status ModelAveraging::average_in_pairs(bool contributes) {
  if (auto status = parts_.extension.average_in_pairs(contributes); !status) return status;
  comm::ReduceOptions options;
  options.lane = parts_.lane.fill();
  return parts_.assignment.communicator->all_reduce({}, options);
}

Status ModelAveraging::gather_equal_state(OpenStep& step) {
  Status status = parts_.gate.run("making all replicas equal", [&] {
    return parts_.models.gather_equal_state(*parts_.assignment.communicator, parts_.assignment.first_holder,
                                            parts_.handover.own_model_counts());
  });
  step.has_equal_state = status.ok();
  return status;
}

void ModelAveraging::adopt_equal_state(OpenStep& step) {
  if (std::exchange(step.has_equal_state, false)) parts_.models.adopt();
}

Status ModelAveraging::equalize() {
  Status status = parts_.gate.run("averaging the models at the end", [&] {
    return parts_.models.gather_equal_state(*parts_.assignment.communicator, parts_.assignment.first_holder, true);
  });
  if (status) parts_.models.adopt();
  return status;
}

}  // namespace elastictrain::session
