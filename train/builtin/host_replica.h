// Purpose: a replica in host memory. See replica.h for ownership, thread and failure.
#pragma once

#include <elastictrain/session.hpp>
#include <memory>
#include <vector>

#include "train/builtin/model.h"
#include "train/builtin/optimizer.h"
#include "train/builtin/options.h"
#include "train/builtin/replica.h"

namespace elastictrain::train {

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
