#include "train/builtin/cuda/device_model.h"

#include "train/builtin/cuda/device_char_lm.h"
#include "train/builtin/cuda/device_mlp.h"
#include "train/builtin/cuda/device_synthetic.h"

namespace elastictrain::train {

DeviceModel::DeviceModel(Engine& engine, Model& host)
    : parameters_(engine.upload<float>(host.parameters())), gradient_(engine.upload<float>(host.gradient())) {}

std::unique_ptr<DeviceModel> make_device_model(Engine& engine, const TrainerOptions& options, Model& host) {
  switch (options.model) {
    case ModelKind::kMlp:
      return std::make_unique<DeviceMlp>(engine, static_cast<MlpModel&>(host));
    case ModelKind::kCharLm:
      return std::make_unique<DeviceCharLm>(engine, static_cast<CharLmModel&>(host));
    case ModelKind::kSynthetic:
      return std::make_unique<DeviceSynthetic>(engine, static_cast<SyntheticModel&>(host));
  }
  panic("model kind without a model");
}

}  // namespace elastictrain::train
