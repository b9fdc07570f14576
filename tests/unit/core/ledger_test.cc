#include "supervisor/core/ledger.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

protocol::AuditStep used(Step step, std::uint64_t epoch, std::uint64_t first, std::uint64_t count) {
  protocol::AuditStep audit;
  audit.step = step;
  audit.epoch = epoch;
  audit.first_position = first;
  audit.count = count;
  return audit;
}

protocol::AuditStep hashed(Step step, std::uint64_t hash) {
  protocol::AuditStep audit;
  audit.step = step;
  audit.hashed = true;
  audit.state_hash = hash;
  return audit;
}

}  // namespace

TEST_CASE("intervals merge and count what was there before") {
  IntervalSet set;
  CHECK(set.add(10, 10) == 0);
  CHECK(set.add(30, 10) == 0);
  CHECK(set.pieces() == 2);
  CHECK(set.add(20, 10) == 0);
  CHECK(set.pieces() == 1);
  CHECK(set.size() == 30);
  CHECK(set.add(5, 10) == 5);
  CHECK(set.size() == 35);
  CHECK(set.add(0, 100) == 35);
  CHECK(set.size() == 100);
  CHECK(set.add(50, 0) == 0);
  CHECK(set.end() == 100);
}

TEST_CASE("the first gap is the smallest number that is not there") {
  IntervalSet set;
  CHECK_FALSE(set.first_gap().has_value());
  set.add(5, 5);
  CHECK(set.first_gap() == 0);
  set.add(0, 3);
  CHECK(set.first_gap() == 3);
  set.add(3, 2);
  CHECK_FALSE(set.first_gap().has_value());
}

TEST_CASE("intervals agree with a plain table for random additions") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    IntervalSet set;
    std::vector<bool> table(300, false);
    for (int i = 0; i < 30; ++i) {
      const std::uint64_t first = random() % 250;
      const std::uint64_t count = random() % 50;
      std::uint64_t overlap = 0;
      for (std::uint64_t n = first; n < first + count; ++n) {
        if (table[n]) ++overlap;
        table[n] = true;
      }
      REQUIRE(set.add(first, count) == overlap);
    }
    REQUIRE(set.size() == static_cast<std::uint64_t>(std::count(table.begin(), table.end(), true)));
  }
}

TEST_CASE("a clean run has nothing missing and nothing repeated") {
  Ledger ledger;
  ledger.set_sample_count(100);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    // The second worker's report comes first.
    CHECK(
        ledger.record(WorkerId{2}, {{used(epoch * 2 + 1, epoch, 30, 20), used(epoch * 2 + 2, epoch, 80, 20)}}).empty());
    CHECK(
        ledger.record(WorkerId{1}, {{used(epoch * 2 + 1, epoch, 0, 30), used(epoch * 2 + 2, epoch, 50, 30)}}).empty());
  }
  const Ledger::Summary summary = ledger.summary();
  CHECK(summary.steps == 4);
  CHECK(summary.epochs == 2);
  CHECK(summary.samples == 200);
  CHECK(summary.missing == 0);
  CHECK(summary.repeated == 0);
}

TEST_CASE("a sample that counts twice is found at once") {
  Ledger ledger;
  ledger.record(WorkerId{1}, {{used(1, 0, 0, 32)}});
  const auto violations = ledger.record(WorkerId{2}, {{used(1, 0, 30, 32)}});
  REQUIRE(violations.size() == 1);
  CHECK(violations[0] == "2 samples counted twice: step 1 of w2 used positions 30 to 62 of epoch 0");
  CHECK(ledger.summary().repeated == 2);
}

TEST_CASE("a sample that never counts is missing from a finished epoch") {
  Ledger ledger;
  ledger.set_sample_count(100);
  ledger.record(WorkerId{1}, {{used(1, 0, 0, 90), used(2, 1, 0, 10), used(3, 1, 20, 10)}});
  CHECK(ledger.summary().missing == 10 + 10);
}

TEST_CASE("an epoch that a stop cut short misses nothing") {
  Ledger ledger;
  ledger.set_sample_count(100);
  ledger.record(WorkerId{1}, {{used(1, 0, 0, 64)}});
  CHECK(ledger.summary().missing == 0);
}

TEST_CASE("states that differ after a step are found") {
  Ledger ledger;
  CHECK(ledger.record(WorkerId{1}, {{hashed(10, 0xabc)}}).empty());
  CHECK(ledger.record(WorkerId{2}, {{hashed(10, 0xabc)}}).empty());
  const auto violations = ledger.record(WorkerId{3}, {{hashed(10, 0xdef)}});
  REQUIRE(violations.size() == 1);
  CHECK(violations[0] == "states differ after step 10: w3 and w1 have other parameters");
  CHECK(ledger.summary().hashes_compared == 2);
  CHECK(ledger.summary().unequal_hashes == 1);
}

TEST_CASE("old hashes are let go, so that memory stays bounded") {
  Ledger ledger;
  for (Step step = 1; step <= Ledger::kHashWindow + 1; ++step) ledger.record(WorkerId{1}, {{hashed(step, step)}});
  CHECK(ledger.record(WorkerId{2}, {{hashed(1, 99)}}).empty());
  CHECK(ledger.record(WorkerId{2}, {{hashed(Ledger::kHashWindow + 1, 99)}}).size() == 1);
}
