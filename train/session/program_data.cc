#include "train/session/program_data.h"

#include <cstring>
#include <utility>

namespace elastictrain::session {

Status ProgramData::share(Bucket& bucket) {
  restore_or_copy(bucket);
  return gate_.run("sharing the program's data", [&] { return bucket.share(*seat_.communicator); });
}

void ProgramData::reserve_copy(Bucket& bucket) {
  copies_.make_room(bucket.copy, bucket.index, (bucket.bytes.size() + sizeof(float) - 1) / sizeof(float));
}

void ProgramData::restore_or_copy(Bucket& bucket) {
  const auto bytes = bucket.bytes;
  if (bytes.empty()) return;
  if (std::exchange(bucket.copied, true)) {
    std::memcpy(bytes.data(), bucket.copy.data(), bytes.size());
    return;
  }
  reserve_copy(bucket);
  std::memcpy(bucket.copy.data(), bytes.data(), bytes.size());
}

}  // namespace elastictrain::session
