// Purpose: a model and its optimizer for the training loop, in host memory or in GPU memory.
//
// Ownership: borrows model and session, which must outlive it; but destroy the session first, as it shares the buffers.
// Thread: the training thread. Failure: kUnavailable if the device or a library that it needs is missing; kInternal if
// the device fails; SessionError from the session.
#pragma once

#include <cstdint>
#include <span>

#include "supervisor/protocol/result.h"

namespace elastictrain::train {

class Replica {
 public:
  virtual ~Replica() = default;

  // Computes the mean gradient over the samples and passes it to the session bucket by bucket. Without samples it
  // passes only the buckets.
  virtual Status compute(std::span<const std::uint64_t> samples) = 0;

  // Call it once the session has reduced all buckets. Returns the mean loss of the samples, or 0 without samples.
  virtual Result<double> update(double learning_rate) = 0;

  // The parameters in host memory; valid until the next update.
  virtual Result<std::span<const float>> parameters() = 0;
};

}  // namespace elastictrain::train
