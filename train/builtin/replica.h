// Purpose: what the training loop works on: a model and its optimizer, in host memory or in a GPU's.
//
// Ownership: borrows model and session, which must outlive it; the session must go before it, as it shares its buffers.
// Thread: the training thread. Failure: kUnavailable where the device or what it needs is missing; kInternal where the
// device fails; SessionError from the session.
#pragma once

#include <cstdint>
#include <elastictrain/session.hpp>
#include <memory>
#include <span>

#include "supervisor/protocol/result.h"
#include "train/builtin/model.h"
#include "train/builtin/options.h"

namespace elastictrain::train {

class Replica {
 public:
  virtual ~Replica() = default;

  // The mean gradient over the samples, given to the session bucket by bucket; without samples only the buckets.
  virtual Status compute(std::span<const std::uint64_t> samples) = 0;

  // Once the session has reduced all buckets. Returns the mean loss of the samples, 0 without any.
  virtual Result<double> update(double learning_rate) = 0;

  // In host memory; valid until the next update.
  virtual Result<std::span<const float>> parameters() = 0;
};

// Registers with the session all that an update changes; the session is not started yet.
Result<std::unique_ptr<Replica>> make_replica(const TrainerOptions& options, Model& model, Session& session);

}  // namespace elastictrain::train
