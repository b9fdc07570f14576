#include "train/builtin/cuda/device_mlp.h"

namespace elastictrain::train {
namespace {

device::DeviceMemory upload_rows(Engine& engine, const LabelledRows& rows) {
  if (rows.bytes.empty()) return engine.upload<float>(rows.numbers);
  return engine.upload<std::uint8_t>(rows.bytes);
}

}  // namespace

DeviceMlp::DeviceMlp(Engine& engine, MlpModel& host)
    : DeviceModel(engine, host),
      engine_(engine),
      host_(host),
      pass_(engine, host.stack()),
      rows_(upload_rows(engine, host.task().train)),
      labels_(engine.upload<std::uint32_t>(host.task().train.labels)),
      centre_(engine.upload<float>(host.task().scaling.centre)),
      factor_(engine.upload<float>(host.task().scaling.factor)) {}

void DeviceMlp::gather(std::span<const std::uint64_t> samples) {
  const LabelledRows& rows = host_.task().train;
  const auto* const indices = engine_.upload_indices(samples);
  float* const input = pass_.input(samples.size());
  const char* const kernel = rows.bytes.empty() ? "et_gather_floats" : "et_gather_bytes";
  engine_.launch(kernel, rows_.as<void>(), indices, samples.size(), rows.features, centre_.as<float>(),
                 factor_.as<float>(), input);
  engine_.launch("et_gather_labels", labels_.as<unsigned>(), indices, samples.size(), pass_.labels());
}

void DeviceMlp::compute(std::span<const std::uint64_t> samples, const BucketReady& ready) {
  gather(samples);
  BucketProgress progress(host_.buckets(), ready);
  pass_.run(
      parameters(), gradient(), [&](std::size_t layer) { progress.layer_done(host_.stack().ranges()[layer]); },
      nullptr);
}

}  // namespace elastictrain::train
