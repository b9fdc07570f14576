#include "train/builtin/loop/make_replica.h"

#include "train/builtin/cuda/device_replica.h"
#include "train/builtin/replica.h"

namespace elastictrain::train {

Result<std::unique_ptr<Replica>> make_replica(const TrainerOptions& options, Model& model, Session& session) {
  const bool on_device =
      options.device == DeviceChoice::kCuda || (options.device == DeviceChoice::kAuto && find_gpu_and_libraries().ok());
  if (on_device) return DeviceReplica::open(options, model, session);
  return std::unique_ptr<Replica>(std::make_unique<HostReplica>(options, model, session));
}

}  // namespace elastictrain::train
