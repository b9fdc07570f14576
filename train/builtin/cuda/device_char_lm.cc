#include "train/builtin/cuda/device_char_lm.h"

namespace elastictrain::train {

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

}  // namespace elastictrain::train
