#include "supervisor/core/pure/failure_budget.h"

#include <doctest/doctest.h>

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

Instant instant_of(int seconds) {
  return Instant{} + std::chrono::seconds(seconds);
}

Loss crash(std::uint32_t worker, int status) {
  return {FailureClass::kCrash,
          status,
          "A",
          "rank 0 (w" + std::to_string(worker) + " on A) exited with status " + std::to_string(status),
          "; bad",
          true};
}

Loss hang() {
  return {FailureClass::kHang, 137, "A", "rank 0 (w1 on A) made no progress for 9000 ms and was ended", "", false};
}

Loss lost_host() {
  return {FailureClass::kInfrastructure, 69, "B", "host B is lost", "", false};
}

FailureSettings budget_settings() {
  FailureSettings settings;
  settings.max_crashes = 2;
  settings.max_hangs = 1;
  settings.max_infrastructure = 1;
  settings.max_fruitless = 2;
  settings.window = Millis(600'000);
  return settings;
}

}  // namespace

TEST_CASE("classes are counted apart") {
  FailureBudget budget(budget_settings());
  CHECK_FALSE(budget.charge(crash(1, 3), instant_of(0)));
  CHECK_FALSE(budget.charge(crash(2, 3), instant_of(1)));
  CHECK_FALSE(budget.charge(hang(), instant_of(2)));
  CHECK_FALSE(budget.charge(lost_host(), instant_of(3)));
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(
        budget.charge({FailureClass::kPreemption, 143, "A", "rank 1 was asked to end", "", false}, instant_of(4)));
  }
  CHECK(budget.count(FailureClass::kCrash, instant_of(5)) == 2);
  CHECK(budget.count(FailureClass::kPreemption, instant_of(5)) == 100);
}

TEST_CASE("one crash too many ends the run with the worker's status") {
  FailureBudget budget(budget_settings());
  budget.charge(crash(1, 3), instant_of(0));
  budget.charge(crash(2, 3), instant_of(1));
  const auto end = budget.charge(crash(3, 7), instant_of(2));
  REQUIRE(end);
  CHECK(end->status == 7);
  CHECK(end->reason ==
        "rank 0 (w3 on A) exited with status 7; bad\nThat is loss 3 of the class crash within 10m 00s, and 2 are "
        "allowed (failures.max_crashes).");
}

TEST_CASE("without a budget for crashes the first one is the reason as it is") {
  FailureSettings none = budget_settings();
  none.max_crashes = 0;
  FailureBudget budget(none);
  const auto end = budget.charge(crash(1, 3), instant_of(0));
  REQUIRE(end);
  CHECK(end->status == 3);
  CHECK(end->reason == "rank 0 (w1 on A) exited with status 3; bad");
}

TEST_CASE("hangs beyond their budget say that starting again will not help; lost hosts that they are missing") {
  FailureBudget budget(budget_settings());
  budget.charge(hang(), instant_of(0));
  const auto hung = budget.charge(hang(), instant_of(1));
  REQUIRE(hung);
  CHECK(hung->status == 93);
  budget.charge(lost_host(), instant_of(0));
  const auto lost = budget.charge(lost_host(), instant_of(1));
  REQUIRE(lost);
  CHECK(lost->status == 69);
}

TEST_CASE("what is older than the window does not count") {
  FailureBudget budget(budget_settings());
  budget.charge(crash(1, 3), instant_of(0));
  budget.charge(crash(2, 3), instant_of(300));
  CHECK_FALSE(budget.charge(crash(3, 3), instant_of(601)));
  CHECK(budget.count(FailureClass::kCrash, instant_of(601)) == 2);
  CHECK(budget.total(FailureClass::kCrash) == 3);
  CHECK(budget.charge(crash(4, 3), instant_of(602)));
}

TEST_CASE("recoveries without a step between them end the run with 93") {
  FailureBudget budget(budget_settings());
  CHECK_FALSE(budget.recovers(true, 40, "link down"));
  CHECK_FALSE(budget.recovers(false, 40, "link down"));
  CHECK_FALSE(budget.recovers(false, 40, "link down"));
  const auto end = budget.recovers(false, 40, "link down");
  REQUIRE(end);
  CHECK(end->status == 93);
  CHECK(end->reason ==
        "3 recoveries in a row came no further than step 40 (failures.max_fruitless = 2), the last one after: link "
        "down. Starting the run again as it is will not help.");
}

TEST_CASE("a committed step between two recoveries makes them fruitful") {
  FailureBudget budget(budget_settings());
  for (Step step = 10; step < 100; ++step) CHECK_FALSE(budget.recovers(step % 3 == 0, step, "link down"));
  CHECK(budget.fruitless() == 0);
}

TEST_CASE("where a worker crashed meanwhile the fruitless run has its status") {
  FailureBudget budget(budget_settings());
  budget.recovers(true, 40, "link down");
  for (int i = 0; i < 2; ++i) CHECK_FALSE(budget.recovers(false, 40, "link down"));
  budget.charge(crash(4, 5), instant_of(0));
  const auto end = budget.recovers(false, 40, "link down");
  REQUIRE(end);
  CHECK(end->status == 5);
  CHECK(end->reason.find("the last one after: link down; bad") != std::string::npos);
}

TEST_CASE("a crash before the last progress is not blamed for the standstill after it") {
  FailureBudget budget(budget_settings());
  budget.charge(crash(1, 5), instant_of(0));
  CHECK_FALSE(budget.recovers(true, 10, "link down"));
  CHECK_FALSE(budget.recovers(true, 40, "link down"));
  CHECK_FALSE(budget.recovers(false, 40, "link down"));
  CHECK_FALSE(budget.recovers(false, 40, "link down"));
  const auto end = budget.recovers(false, 40, "link down");
  REQUIRE(end);
  CHECK(end->status == 93);
}
