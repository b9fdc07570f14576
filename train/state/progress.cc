#include "train/state/progress.h"

#include <bit>
#include <utility>

namespace elastictrain::state {
namespace {

constexpr std::uint64_t kMagic = 0x3654535445544c45ULL;  // "ELTETST6" in memory; the digit is the format's version

class Writer {
 public:
  void put(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void put(double value) { put(std::bit_cast<std::uint64_t>(value)); }

  // Its length, then its bytes in whole words, filled up with zeros.
  void put(std::span<const std::byte> bytes) {
    put(std::uint64_t{bytes.size()});
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
  }

  // The record with the length filled in and the checksum appended.
  std::vector<std::byte> finish() {
    const std::uint64_t length = bytes_.size() + 8;
    for (std::size_t i = 0; i < 8; ++i) bytes_[8 + i] = static_cast<std::byte>(length >> (8 * i));
    put(hash_bytes(bytes_.data(), bytes_.size(), 0));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

// Reads zeros beyond the end and records the failure.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t number() {
    if (bytes_.size() - at_ < 8) {
      overrun_ = true;
      return 0;
    }
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(bytes_[at_++]) << (8 * i);
    return value;
  }
  double real() { return std::bit_cast<double>(number()); }
  // A count of records with `numbers_each` numbers, which must fit into the remaining bytes.
  std::size_t count(std::size_t numbers_each) {
    const std::uint64_t value = number();
    if (value <= (bytes_.size() - at_) / (8 * numbers_each)) return static_cast<std::size_t>(value);
    overrun_ = true;
    return 0;
  }
  // As Writer::put(); the zeros at its end must be there, so that each record has one form.
  std::vector<std::byte> bytes() {
    const std::uint64_t length = number();
    if (length > bytes_.size() - at_ || bytes_.size() - at_ < (length + 7) / 8 * 8) {
      overrun_ = true;
      return {};
    }
    const auto all = bytes_.subspan(at_, (length + 7) / 8 * 8);
    at_ += all.size();
    for (const std::byte rest : all.subspan(length)) overrun_ = overrun_ || rest != std::byte{0};
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length)};
  }
  bool done() const { return !overrun_ && at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool overrun_ = false;
};

Error damaged() {
  return {ErrorCode::kInvalid, "the header of the state transfer is damaged"};
}

void put_progress(Writer& out, const Progress& progress) {
  out.put(progress.committed_step);
  out.put(progress.samples_used);
  out.put(progress.generation_base);
  out.put(progress.sampler.seed);
  out.put(progress.sampler.epoch);
  out.put(progress.sampler.cursor);
  out.put(progress.learning_rate.from);
  out.put(progress.learning_rate.to);
  out.put(std::uint64_t{progress.learning_rate.length_steps});
  out.put(std::uint64_t{progress.learning_rate.done_steps});
  out.put(std::uint64_t{progress.sampler.returned.size()});
  for (const auto& interval : progress.sampler.returned) {
    out.put(interval.first);
    out.put(interval.count);
  }
}

void put_values(Writer& out, const std::vector<EarlyValue>& values) {
  out.put(std::uint64_t{values.size()});
  for (const auto& value : values) {
    out.put(std::as_bytes(std::span(value.name)));
    out.put(std::span(value.bytes));
  }
}

std::vector<EarlyValue> read_values(Reader& in) {
  std::vector<EarlyValue> values(in.count(2));
  for (auto& value : values) {
    const auto name = in.bytes();
    value.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    value.bytes = in.bytes();
  }
  return values;
}

Progress read_progress(Reader& in) {
  Progress progress;
  progress.committed_step = in.number();
  progress.samples_used = in.number();
  progress.generation_base = in.number();
  progress.sampler.seed = in.number();
  progress.sampler.epoch = in.number();
  progress.sampler.cursor = in.number();
  progress.learning_rate.from = in.real();
  progress.learning_rate.to = in.real();
  progress.learning_rate.length_steps = static_cast<std::uint32_t>(in.number());
  progress.learning_rate.done_steps = static_cast<std::uint32_t>(in.number());
  progress.sampler.returned.resize(in.count(2));
  for (auto& interval : progress.sampler.returned) {
    interval.first = in.number();
    interval.count = in.number();
  }
  return progress;
}

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

std::vector<std::byte> encode_header(const TransferHeader& header) {
  Writer out;
  out.put(kMagic);
  out.put(std::uint64_t{0});
  out.put(header.generation);
  out.put(header.layout_hash);
  out.put(header.total_bytes);
  out.put(header.slice_offset);
  out.put(header.slice_length);
  out.put(header.sample_count);
  put_progress(out, header.progress);
  out.put(std::uint64_t{header.next_shares.size()});
  for (const auto& share : header.next_shares) {
    out.put(std::uint64_t{share.worker.value} << 32 | share.samples);
    out.put(std::uint64_t{share.is_lost ? 1U : 0U});
  }
  out.put(header.averaged_until);
  out.put(header.data_ended_at);
  put_values(out, header.early);
  put_values(out, header.attachments);
  return out.finish();
}

Slice slice_of_donor(std::uint64_t total_bytes, std::uint32_t index, std::uint32_t count, bool replicas_differ) {
  if (!replicas_differ) return slice_of(total_bytes, index, count);
  return index == 0 ? Slice{0, total_bytes} : Slice{total_bytes, 0};
}

Slice slice_to_compare(std::uint64_t total_bytes, std::uint32_t index, std::uint32_t count, bool replicas_differ) {
  if (replicas_differ || count == 1) return {};
  return slice_of(total_bytes, (index + 1) % count, count);
}

Result<std::size_t> header_length(std::span<const std::byte> prefix) {
  Reader in(prefix);
  if (in.number() != kMagic) return Error{ErrorCode::kInvalid, "the state transfer does not start with its header"};
  const std::uint64_t length = in.number();
  if (length < kHeaderPrefixBytes + 8 || length > kMaxHeaderBytes) return damaged();
  return static_cast<std::size_t>(length);
}

Result<TransferHeader> decode_header(std::span<const std::byte> bytes) {
  const auto length = header_length(bytes);
  if (!length) return length.error();
  if (*length != bytes.size()) return damaged();
  const auto body = bytes.first(bytes.size() - 8);
  if (Reader(bytes.last(8)).number() != hash_bytes(body.data(), body.size(), 0)) return damaged();
  Reader in(body.subspan(kHeaderPrefixBytes));
  TransferHeader header;
  header.generation = in.number();
  header.layout_hash = in.number();
  header.total_bytes = in.number();
  header.slice_offset = in.number();
  header.slice_length = in.number();
  header.sample_count = in.number();
  header.progress = read_progress(in);
  header.next_shares.resize(in.count(2));
  for (auto& share : header.next_shares) {
    const std::uint64_t both = in.number();
    share = {WorkerId{static_cast<std::uint32_t>(both >> 32)}, static_cast<std::uint32_t>(both), in.number() != 0};
  }
  header.averaged_until = in.number();
  header.data_ended_at = in.number();
  header.early = read_values(in);
  header.attachments = read_values(in);
  if (!in.done() || !is_well_formed(header.progress.sampler)) return damaged();
  return header;
}

}  // namespace elastictrain::state
