#include "train/builtin/cuda/device_model.h"

#include <algorithm>

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

DeviceCharLm::DeviceCharLm(Engine& engine, CharLmModel& host)
    : DeviceModel(engine, host),
      engine_(engine),
      host_(host),
      pass_(engine, host.stack()),
      text_(engine.upload<std::uint8_t>(host.task().train)) {}

std::size_t DeviceCharLm::load_blocks(std::span<const std::uint64_t> blocks) {
  const auto [context, width, hidden] = host_.shape();
  const std::size_t predictions = blocks.size() * kCharactersPerSample;
  const std::size_t characters = predictions * context;
  engine_.reserve(tokens_, characters);
  engine_.reserve(input_gradient_, characters * width * sizeof(float));
  const auto* const indices = engine_.upload_indices(blocks);
  float* const input = pass_.input(predictions);
  engine_.launch("et_read_blocks", text_.as<unsigned char>(), indices, predictions, kCharactersPerSample, context,
                 tokens_.as<unsigned char>(), pass_.labels());
  engine_.launch("et_embed", tokens_.as<unsigned char>(), parameters(), characters, width, input);
  return characters;
}

void DeviceCharLm::compute(std::span<const std::uint64_t> samples, const BucketReady& ready) {
  const std::size_t characters = load_blocks(samples);
  const std::size_t vocabulary = host_.task().vocabulary;
  const std::size_t width = host_.shape().embedding;
  const std::size_t offset = vocabulary * width;
  BucketProgress progress(host_.buckets(), ready);
  const auto layer_done = [&](std::size_t layer) {
    const Range range = host_.stack().ranges()[layer];
    progress.layer_done({offset + range.begin, range.count});
  };
  pass_.run(parameters() + offset, gradient() + offset, layer_done, input_gradient_.as<float>());
  engine_.launch("et_embed_backward", tokens_.as<unsigned char>(), input_gradient_.as<float>(), characters, width,
                 vocabulary, gradient());
  progress.layer_done({0, offset});
}

DeviceSynthetic::DeviceSynthetic(Engine& engine, SyntheticModel& host)
    : DeviceModel(engine, host),
      engine_(engine),
      host_(host),
      first_parameters_(engine, SyntheticModel::kLossParameters * sizeof(float)) {}

void DeviceSynthetic::compute(std::span<const std::uint64_t> samples, const BucketReady& ready) {
  host_.spend_time(samples.size(), [&] {
    if (host_.gradient_kind() == GradientKind::kSamples) {
      const float mean = SyntheticModel::mean_of(samples);
      engine_.launch("et_pattern_gradient", gradient(), parameters(), count(), mean);
    }
    first_parameters_.queue(parameters(), std::min(SyntheticModel::kLossParameters, count()) * sizeof(float));
  });
  for (const Range& bucket : host_.buckets()) ready(bucket);
}

}  // namespace elastictrain::train
