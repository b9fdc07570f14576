// Purpose: the checksum of checkpoint files: XXH3 with 128 bits, in the format of `xxh128sum`.
// Thread: one at a time per object.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace elastictrain::checkpoint {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void add(std::span<const std::byte> bytes);
  std::string digits() const;

 private:
  void* state_;
};

std::string checksum_of(std::span<const std::byte> bytes);

}  // namespace elastictrain::checkpoint
