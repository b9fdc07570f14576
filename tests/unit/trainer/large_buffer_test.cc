#include "train/builtin/large_buffer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <new>

namespace elastictrain::train {
namespace {

TEST_CASE("a large buffer is zero and keeps its address when it moves") {
  LargeBuffer buffer(1'000'003);
  CHECK(buffer.values().size() == 1'000'003);
  CHECK(std::all_of(buffer.values().begin(), buffer.values().end(), [](float value) { return value == 0; }));
  float* const address = buffer.values().data();
  LargeBuffer moved;
  moved = std::move(buffer);
  CHECK(moved.values().data() == address);
  CHECK(buffer.values().empty());
}

TEST_CASE("a buffer that is larger than the address space is refused") {
  CHECK_THROWS_AS(LargeBuffer(std::numeric_limits<std::size_t>::max() / 8), std::bad_alloc);
  CHECK(LargeBuffer(0).values().empty());
}

}  // namespace
}  // namespace elastictrain::train
