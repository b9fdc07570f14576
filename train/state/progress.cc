#include "train/state/progress.h"

#include <bit>

#include "train/state/state_buffers.h"

namespace elastictrain::state {
namespace {

constexpr std::uint64_t kMagic = 0x3154535445544c45ULL;  // "ELTETST1" in memory; the digit is the format's version

class Writer {
 public:
  explicit Writer(HeaderBytes& bytes) : bytes_(bytes) {}
  void put(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_[at_++] = static_cast<std::byte>(value >> (8 * i));
  }
  void put(double value) { put(std::bit_cast<std::uint64_t>(value)); }

 private:
  HeaderBytes& bytes_;
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte, kHeaderBytes> bytes) : bytes_(bytes) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(bytes_[at_++]) << (8 * i);
    return value;
  }
  double real() { return std::bit_cast<double>(number()); }

 private:
  std::span<const std::byte, kHeaderBytes> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

double LearningRateRamp::factor() const {
  if (done_steps >= length_steps) return to;
  return from + (to - from) * done_steps / length_steps;
}

void LearningRateRamp::advance() {
  if (done_steps < length_steps) ++done_steps;
}

void LearningRateRamp::retarget(double factor_now, std::uint32_t steps) {
  from = factor();
  to = factor_now;
  length_steps = steps;
  done_steps = 0;
}

HeaderBytes encode_header(const TransferHeader& header) {
  HeaderBytes bytes{};
  Writer out(bytes);
  const auto& progress = header.progress;
  out.put(kMagic);
  out.put(header.generation);
  out.put(header.layout_hash);
  out.put(header.total_bytes);
  out.put(header.slice_offset);
  out.put(header.slice_length);
  out.put(header.sample_count);
  out.put(progress.committed_step);
  out.put(progress.samples_used);
  out.put(progress.sampler.seed);
  out.put(progress.sampler.epoch);
  out.put(progress.sampler.cursor);
  out.put(progress.learning_rate.from);
  out.put(progress.learning_rate.to);
  out.put(std::uint64_t{progress.learning_rate.length_steps});
  out.put(std::uint64_t{progress.learning_rate.done_steps});
  out.put(hash_bytes(bytes.data(), kHeaderBytes - 8, 0));
  return bytes;
}

Result<TransferHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  Reader in(bytes);
  if (in.number() != kMagic) return Error{ErrorCode::kInvalid, "the state transfer does not start with its header"};
  TransferHeader header;
  auto& progress = header.progress;
  header.generation = in.number();
  header.layout_hash = in.number();
  header.total_bytes = in.number();
  header.slice_offset = in.number();
  header.slice_length = in.number();
  header.sample_count = in.number();
  progress.committed_step = in.number();
  progress.samples_used = in.number();
  progress.sampler.seed = in.number();
  progress.sampler.epoch = in.number();
  progress.sampler.cursor = in.number();
  progress.learning_rate.from = in.real();
  progress.learning_rate.to = in.real();
  progress.learning_rate.length_steps = static_cast<std::uint32_t>(in.number());
  progress.learning_rate.done_steps = static_cast<std::uint32_t>(in.number());
  if (in.number() != hash_bytes(bytes.data(), kHeaderBytes - 8, 0)) {
    return Error{ErrorCode::kInvalid, "the header of the state transfer is damaged"};
  }
  return header;
}

}  // namespace elastictrain::state
