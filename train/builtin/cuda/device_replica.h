// Purpose: a replica in GPU memory: all work is queued in one stream, and the host waits only for the sums. Held-out
// data is scored on the host, in parallel with training. See replica.h for ownership, thread and failure.
#pragma once

#include <elastictrain/session.hpp>
#include <memory>
#include <vector>

#include "train/builtin/cuda/device_model.h"
#include "train/builtin/cuda/device_optimizer.h"
#include "train/builtin/model.h"
#include "train/builtin/options.h"
#include "train/builtin/replica.h"

namespace elastictrain::train {

// Whether a GPU, its driver, cuBLAS and NVRTC are available; the error names what is missing.
Status find_gpu_and_libraries();

class DeviceReplica final : public Replica {
 public:
  // Uses the GPU that belongs to this worker's place among those that the process sees.
  static Result<std::unique_ptr<Replica>> open(const TrainerOptions& options, Model& model, Session& session);

  ~DeviceReplica() override { engine_->settle(); }

  Status compute(std::span<const std::uint64_t> samples) override;
  Result<double> update(double learning_rate) override;
  Result<std::span<const float>> parameters() override;

 private:
  DeviceReplica(std::unique_ptr<Engine> engine, const TrainerOptions& options, Model& model, Session& session);
  void share_state();
  void reduce(Range bucket);

  const std::unique_ptr<Engine> engine_;
  Model& host_;
  Session& session_;
  const std::unique_ptr<DeviceModel> model_;
  const std::unique_ptr<DeviceOptimizer> optimizer_;
  bool has_loss_ = false;
  std::vector<float> host_parameters_;
};

}  // namespace elastictrain::train
