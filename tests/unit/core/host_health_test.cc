#include "supervisor/core/pure/failure_budget.h"

#include <doctest/doctest.h>

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

Instant instant_at(int seconds) {
  return Instant{} + std::chrono::seconds(seconds);
}

FailureSettings health_settings() {
  FailureSettings settings;
  settings.cool_down = Millis(10'000);
  settings.cool_down_max = Millis(60'000);
  return settings;
}

}  // namespace

TEST_CASE("one failure costs a host nothing") {
  HostHealth health(health_settings());
  CHECK_FALSE(health.failed("A", "link down", instant_at(0)));
  CHECK(health.usable("A", instant_at(0)));
  CHECK(health.usable("B", instant_at(0)));
  CHECK(health.text("A", instant_at(0)).empty());
}

TEST_CASE("from the second failure in a row on a host is cooled, longer each time, up to a limit") {
  HostHealth health(health_settings());
  health.failed("A", "link down", instant_at(0));
  CHECK(health.failed("A", "link down", instant_at(1)) == instant_at(11));
  CHECK_FALSE(health.usable("A", instant_at(10)));
  CHECK(health.usable("A", instant_at(11)));
  CHECK(health.failed("A", "link down", instant_at(20)) == instant_at(40));
  CHECK(health.failed("A", "link down", instant_at(50)) == instant_at(90));
  CHECK(health.failed("A", "link down", instant_at(100)) == instant_at(160));
  CHECK(health.failed("A", "link down", instant_at(200)) == instant_at(260));
  CHECK(health.failures("A", instant_at(200)) == 6);
}

TEST_CASE("a host that is lost with all of its workers failed once") {
  HostHealth health(health_settings());
  for (int worker = 0; worker < 4; ++worker) health.failed("A", "link down", instant_at(5));
  CHECK(health.failures("A", instant_at(5)) == 1);
}

TEST_CASE("success clears what a host has done") {
  HostHealth health(health_settings());
  health.failed("A", "crash", instant_at(0));
  health.failed("A", "crash", instant_at(1));
  health.trains("A", instant_at(12));
  CHECK(health.failures("A", instant_at(15)) == 2);
  CHECK(health.failures("A", instant_at(22)) == 0);
  CHECK_FALSE(health.failed("A", "crash", instant_at(23)));
  CHECK(health.failures("A", instant_at(23)) == 1);
}

TEST_CASE("a worker that fails before it has trained for long enough is no success") {
  HostHealth health(health_settings());
  health.failed("A", "crash", instant_at(0));
  health.trains("A", instant_at(1));
  CHECK(health.failed("A", "crash", instant_at(5)) == instant_at(15));
  health.trains("A", instant_at(15));
  health.rests("A");
  CHECK(health.failures("A", instant_at(60)) == 2);
}

TEST_CASE("what is left alone is explained") {
  HostHealth health(health_settings());
  for (int i = 0; i < 2; ++i) health.failed("A", "link down", instant_at(i));
  for (int i = 0; i < 3; ++i) health.failed("B", "rank 1 hung", instant_at(i));
  CHECK(health.text("A", instant_at(2)) == "host A failed 2 times in a row (link down) and is not used for 9.0 s");
  CHECK(health.text("B", instant_at(2)) == "host B failed 3 times in a row (rank 1 hung) and is not used for 20.0 s");
  CHECK(health.cooled(instant_at(2)).size() == 2);
  CHECK(health.cooled(instant_at(12)).size() == 1);
  CHECK(health.text("A", instant_at(12)).empty());
}
