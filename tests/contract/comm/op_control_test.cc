#include "train/comm/operation.h"

#include <doctest/doctest.h>

namespace elastictrain::comm {
namespace {

constexpr std::chrono::milliseconds kNoLimit{0};

TEST_CASE("ranks are crowded where there are fewer processors for all of them, whatever each is bound to") {
  CHECK_FALSE(OpControl(kNoLimit, 8, 16).crowded());
  CHECK_FALSE(OpControl(kNoLimit, 8, 8).crowded());
  CHECK(OpControl(kNoLimit, 8, 7).crowded());
  CHECK(OpControl(kNoLimit, 1'000'000, 0).crowded());
  CHECK_FALSE(OpControl(kNoLimit, 1, 0).crowded());
}

TEST_CASE("a rank that shares its core yields it sooner") {
  const OpControl crowded(kNoLimit, 2, 1);
  const OpControl alone(kNoLimit, 1, 1);
  CHECK(crowded.spins() < alone.spins());
}

}  // namespace
}  // namespace elastictrain::comm
