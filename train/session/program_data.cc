#include "train/session/program_data.h"

#include <cstring>
#include <utility>

namespace elastictrain::session {

Status ProgramData::share(Bucket& bucket) {
  const bool sums = bucket.kind == Bucket::Kind::kSum;
  const std::span<std::byte> bytes = sums ? std::as_writable_bytes(std::span(bucket.data, bucket.count)) : bucket.bytes;
  if (bytes.empty()) return {};
  restore_or_copy(bucket, bytes);
  return gate_.run("sharing the program's data", [&] {
    if (sums) return seat_.communicator->all_reduce({bucket.data, bucket.count});
    return seat_.communicator->broadcast(bucket.bytes, 0);
  });
}

void ProgramData::restore_or_copy(Bucket& bucket, std::span<std::byte> bytes) {
  if (std::exchange(bucket.copied, true)) {
    std::memcpy(bytes.data(), bucket.copy.data(), bytes.size());
    return;
  }
  bucket.copy = copies_.of_bucket(bucket.index, (bytes.size() + sizeof(float) - 1) / sizeof(float));
  std::memcpy(bucket.copy.data(), bytes.data(), bytes.size());
}

}  // namespace elastictrain::session
