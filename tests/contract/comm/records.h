// Purpose: contents and records for the tests of protected connections. Thread: any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "train/comm/record_cipher.h"

namespace elastictrain::comm::testing::records {

inline std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// A whole record as it leaves.
inline std::vector<std::byte> sealed(RecordCipher& cipher, std::span<const std::byte> content) {
  std::vector<std::byte> room(content.size());
  const SealedRecord sealed = cipher.seal(content, room);
  std::vector<std::byte> record(content.size() + kRecordOverheadBytes);
  auto end = std::ranges::copy(sealed.header, record.begin()).out;
  end = std::ranges::copy(sealed.body, end).out;
  std::ranges::copy(sealed.tag, end);
  return record;
}

}  // namespace elastictrain::comm::testing::records
