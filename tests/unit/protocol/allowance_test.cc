#include "supervisor/protocol/allowance.h"

#include <doctest/doctest.h>

namespace elastictrain::protocol {
namespace {

using std::chrono::milliseconds;

int taken(Allowance& allowance, Allowance::TimePoint now, int wanted) {
  int count = 0;
  while (count < wanted && allowance.take(now)) ++count;
  return count;
}

TEST_CASE("an allowance is used up at once and refilled at its rate, up to what it was") {
  const Allowance::TimePoint start = std::chrono::steady_clock::now();
  Allowance allowance(10, 4);
  CHECK(taken(allowance, start, 100) == 10);
  CHECK(taken(allowance, start + milliseconds(249), 100) == 0);
  CHECK(taken(allowance, start + milliseconds(500), 100) == 2);
  CHECK(taken(allowance, start + milliseconds(60'000), 100) == 10);
}

TEST_CASE("what needs more units than are left takes none of them") {
  const Allowance::TimePoint start = std::chrono::steady_clock::now();
  Allowance allowance(10, 4);
  CHECK(allowance.take(start, 6));
  CHECK_FALSE(allowance.take(start, 5));
  CHECK(allowance.take(start, 4));
}

TEST_CASE("a time before the last one refills nothing") {
  const Allowance::TimePoint start = std::chrono::steady_clock::now();
  Allowance allowance(1, 1000);
  CHECK(allowance.take(start));
  CHECK_FALSE(allowance.take(start - milliseconds(5000)));
}

}  // namespace
}  // namespace elastictrain::protocol
