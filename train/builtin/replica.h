// Purpose: a model and its optimizer for the training loop: the interface, and its implementation in host memory.
#pragma once

#include <cstdint>
#include <elastictrain/session.hpp>
#include <memory>
#include <span>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/builtin/model.h"
#include "train/builtin/optimizer.h"
#include "train/builtin/options.h"

// A model and its optimizer for the training loop, in host memory or in GPU memory.
//
// Ownership: borrows model and session, which must outlive it; but destroy the session first, as it shares the buffers.
// Thread: the training thread. Failure: kUnavailable if the device or a library that it needs is missing; kInternal if
// the device fails; SessionError from the session.

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

// A replica in host memory. See replica.h for ownership, thread and failure.

class HostReplica final : public Replica {
 public:
  HostReplica(const TrainerOptions& options, Model& model, Session& session);

  Status compute(std::span<const std::uint64_t> samples) override;
  Result<double> update(double learning_rate) override;
  Result<std::span<const float>> parameters() override { return std::span<const float>(model_.parameters()); }

 private:
  void reduce(Range bucket);
  // The same gradient from those of two halves, whose norms the session asks for.
  double compute_halves(std::span<const std::uint64_t> samples, std::size_t first_half);

  Model& model_;
  Session& session_;
  std::unique_ptr<Optimizer> optimizer_;
  double loss_ = 0;
  std::vector<float> first_half_gradient_;
};

}  // namespace elastictrain::train
