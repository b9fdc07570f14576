#include "train/session/device_access.h"
#include "train/session/step_memory.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace elastictrain::session {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPageFloats = kPageBytes / sizeof(float);

bool is_resident(std::span<float> memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) / kPageBytes * kPageBytes;
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data() + memory.size());
  std::vector<unsigned char> pages((end - begin + kPageBytes - 1) / kPageBytes);
  REQUIRE(::mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()) == 0);
  return std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
}

bool overlap(std::span<float> a, std::span<float> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

TEST_CASE("an area of copies has a place for each bucket, and moves those behind one that has another size") {
  std::vector<std::byte> memory(160);
  CopiesArea area(memory.data(), memory.size());
  const auto at = [&](std::size_t index, std::size_t bytes) {
    return static_cast<std::byte*>(area.of_bucket(index, bytes)) - memory.data();
  };
  CHECK(at(0, 20) == 0);
  CHECK(at(2, 16) == 32);  // the other one is not on the device
  CHECK(at(3, 100) == 48);
  CHECK(area.of_bucket(4, 1) == nullptr);
  CHECK(at(0, 20) == 0);
  CHECK(at(2, 40) == 32);
  CHECK(at(3, 80) == 80);
  CHECK(area.of_bucket(3, 81) == nullptr);
  CHECK(CopiesArea().of_bucket(0, 1) == nullptr);
}

TEST_CASE("reserved memory is given to the buckets before any other, and is resident") {
  InputCopies copies;
  copies.reserve(96 * kPageFloats);
  const auto first = copies.of_bucket(0, 64 * kPageFloats);
  const auto second = copies.of_bucket(1, 32 * kPageFloats);
  const auto third = copies.of_bucket(2, 16 * kPageFloats);
  CHECK(second.data() == first.data() + first.size());
  CHECK(!overlap(third, first));
  CHECK(!overlap(third, second));
  for (const auto memory : {first, second, third}) CHECK(is_resident(memory));
}

TEST_CASE("a bucket keeps its memory from step to step, and gets more when it grows") {
  InputCopies copies;
  const auto small = copies.of_bucket(0, 100);
  small[99] = 7;
  CHECK(copies.of_bucket(0, 100).data() == small.data());
  CHECK(copies.of_bucket(0, 50).data() == small.data());
  CHECK(copies.of_bucket(0, 100)[99] == 7);
  const auto large = copies.of_bucket(0, 40 * kPageFloats);
  CHECK(large.size() == 40 * kPageFloats);
  CHECK(is_resident(large));
  const auto other = copies.of_bucket(3, 8);
  CHECK(!overlap(other, large));
  CHECK(copies.of_bucket(0, 40 * kPageFloats).data() == large.data());
}

TEST_CASE("a bucket without elements needs no memory") {
  InputCopies copies;
  copies.reserve(0);
  CHECK(copies.of_bucket(0, 0).empty());
}

}  // namespace
}  // namespace elastictrain::session
