#include "supervisor/core/pure/ledger.h"

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

protocol::AuditStep used_in(Generation generation, Step step, std::uint64_t epoch, std::uint64_t first,
                            std::uint64_t count) {
  protocol::AuditStep audit = used(step, epoch, first, count);
  audit.generation = generation;
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

TEST_CASE("an account of what an epoch drops may come before another worker's steps of that epoch") {
  Ledger ledger;
  ledger.set_sample_count(100);
  const auto claim = [](Step step, std::uint64_t epoch, std::uint64_t end) {
    return protocol::WorkerAudit{.steps = {used(step, epoch, 0, end)}, .from_checkpoint = true};
  };
  CHECK(ledger.record(WorkerId{1}, {{used(1, 0, 0, 32)}}).empty());
  CHECK(ledger.record(WorkerId{1}, claim(1, 0, 100)).empty());
  CHECK(ledger.record(WorkerId{1}, {{used(2, 1, 0, 32)}}).empty());
  CHECK(ledger.record(WorkerId{1}, claim(2, 1, 100)).empty());
  CHECK(ledger.record(WorkerId{2}, {{used(1, 0, 32, 32), used(2, 1, 32, 32)}}).empty());
  CHECK(ledger.summary().repeated == 0);
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger.record(WorkerId{2}, {{used(3, 1, 40, 32)}}).size() == 1);  // a later step has them once more
}

TEST_CASE("a sample that counts twice is found at once") {
  Ledger ledger;
  ledger.record(WorkerId{1}, {{used(1, 0, 0, 32)}});
  const auto violations = ledger.record(WorkerId{2}, {{used(1, 0, 30, 32)}});
  REQUIRE(violations.size() == 1);
  CHECK(violations[0] == "2 samples counted twice: step 1 of w2 used positions 30 to 62 of epoch 0");
  CHECK(ledger.summary().repeated == 2);
}

TEST_CASE("what a worker did not tell before a sudden end is not accounted for, and what all have told is") {
  Ledger ledger;
  ledger.set_sample_count(100);
  // Five samples of the first epoch are in no step. The second worker told its first three steps, the first one six.
  ledger.record(WorkerId{1}, {{used(1, 0, 0, 30), used(2, 0, 50, 25), used(3, 1, 0, 30), used(4, 1, 50, 25)}});
  ledger.record(WorkerId{1}, {{used(5, 2, 0, 30), used(6, 2, 50, 25)}});
  ledger.record(WorkerId{2}, {{used(1, 0, 30, 20), used(2, 0, 75, 20), used(3, 1, 30, 20)}});
  CHECK(ledger.summary().missing == 5 + 25 + 20);
  CHECK(ledger.summary().unaccounted == 0);
  CHECK(ledger.end({WorkerId{1}, WorkerId{2}}).empty());
  CHECK(ledger.summary().missing == 5);
  CHECK(ledger.summary().unaccounted == 25 + 20);
  CHECK(ledger.end({WorkerId{3}}).empty());  // it has told nothing
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger.summary().unaccounted == 5 + 25 + 20);
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

TEST_CASE("states that differ after a step are found once their workers have made another one") {
  Ledger ledger;
  for (std::uint32_t id : {1, 2, 3}) {
    CHECK(ledger.record(WorkerId{id}, {{hashed(10, id == 3 ? 0xdef : 0xabc)}}).empty());
  }
  CHECK(ledger.record(WorkerId{1}, {{used(11, 0, 0, 10)}}).empty());
  CHECK(ledger.record(WorkerId{2}, {{used(11, 0, 10, 10)}}).empty());
  const auto violations = ledger.record(WorkerId{3}, {{used(11, 0, 20, 10)}});
  REQUIRE(violations.size() == 1);
  CHECK(violations[0] == "states differ after step 10: w3 and w1 have different parameters");
  CHECK(ledger.summary().hashes_compared == 2);
  CHECK(ledger.summary().unequal_hashes == 1);
}

TEST_CASE("states that differ after the last step are found at the end, but for those of workers that were cut off") {
  for (const bool is_cut_off : {false, true}) {
    Ledger ledger;
    ledger.record(WorkerId{1}, {{hashed(10, 0xabc)}});
    ledger.record(WorkerId{2}, {{hashed(10, 0xdef)}});
    CHECK(ledger.end(is_cut_off ? std::vector{WorkerId{2}} : std::vector<WorkerId>{}).empty() == is_cut_off);
    CHECK(ledger.summary().unequal_hashes == (is_cut_off ? 0 : 1));
  }
}

// A new worker calls a collective that the others do not: it goes on from step 10 at another place of its program.
TEST_CASE("the last hash of a worker without which the others repeat the next step does not count") {
  for (const bool comes_late : {false, true}) {
    Ledger ledger;
    const auto newcomer_tells = [&] { ledger.record(WorkerId{3}, {{hashed(10, 0xdef)}}); };
    if (!comes_late) newcomer_tells();
    ledger.record(WorkerId{1}, {{hashed(10, 0xabc)}});
    ledger.fence({2, 11});
    if (comes_late) newcomer_tells();
    ledger.record(WorkerId{2}, {{hashed(10, 0xabc)}});
    protocol::AuditStep next = hashed(11, 0x123);
    next.generation = 2;
    for (std::uint32_t id : {1, 2}) CHECK(ledger.record(WorkerId{id}, {{next}}).empty());
    // What others tell of it is not its own word.
    CHECK(ledger.record(WorkerId{1}, {.steps = {used(11, 0, 20, 10)}, .of = WorkerId{3}}).empty());
    CHECK(ledger.end({}).empty());
    CHECK(ledger.summary().hashes_compared == 2);
    CHECK(ledger.summary().unequal_hashes == 0);
  }
}

TEST_CASE("old hashes are let go, so that memory stays bounded") {
  Ledger ledger;
  for (Step step = 1; step <= Ledger::kHashWindow + 2; ++step) ledger.record(WorkerId{1}, {{hashed(step, step)}});
  CHECK(ledger.record(WorkerId{2}, {{hashed(1, 99)}}).empty());
  CHECK(ledger.record(WorkerId{2}, {{hashed(Ledger::kHashWindow + 1, 99)}}).empty());
  CHECK(ledger.record(WorkerId{2}, {{hashed(Ledger::kHashWindow + 2, 99)}}).size() == 1);
}

TEST_CASE("removed numbers are gaps") {
  IntervalSet set;
  set.add(0, 100);
  set.remove(20, 10);
  set.remove(90, 50);
  set.remove(200, 5);
  CHECK(set.size() == 80);
  CHECK(set.first_gap() == 20);
  CHECK(set.end() == 90);
  CHECK(set.add(0, 100) == 80);
}

TEST_CASE("additions and removals agree with a plain table") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    IntervalSet set;
    std::vector<bool> table(300, false);
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t first = random() % 250;
      const std::uint64_t count = random() % 50;
      const bool add = random() % 2 == 0;
      if (add) set.add(first, count);
      if (!add) set.remove(first, count);
      for (std::uint64_t n = first; n < first + count; ++n) table[n] = add;
      REQUIRE(set.size() == static_cast<std::uint64_t>(std::count(table.begin(), table.end(), true)));
    }
  }
}

// Two workers, 20 samples per step. The first step 3 was committed by w2 alone, which was then lost: w1 repeated it
// with its own part, and the part of w2 was used in step 4.
TEST_CASE("samples voided by a fence do not count, and later generations use them again") {
  Ledger ledger;
  ledger.set_sample_count(60);
  for (Step step = 1; step <= 2; ++step) {
    ledger.record(WorkerId{1}, {{used_in(1, step, 0, 20 * (step - 1), 10)}});
    ledger.record(WorkerId{2}, {{used_in(1, step, 0, 20 * (step - 1) + 10, 10)}});
  }
  ledger.record(WorkerId{2}, {{used_in(1, 3, 0, 50, 10)}});
  CHECK(ledger.fence({3, 3}).empty());
  CHECK(ledger.summary().steps == 2);
  CHECK(ledger.record(WorkerId{1}, {{used_in(3, 3, 0, 40, 10), used_in(3, 4, 0, 50, 10)}}).empty());
  CHECK(ledger.record(WorkerId{1}, {{used_in(3, 5, 1, 0, 10)}}).empty());
  const Ledger::Summary summary = ledger.summary();
  CHECK(summary.samples == 70);
  CHECK(summary.missing == 0);
  CHECK(summary.repeated == 0);
  CHECK(summary.steps == 5);
}

TEST_CASE("a void record that comes late does not count either") {
  Ledger ledger;
  ledger.set_sample_count(40);
  ledger.fence({3, 2});
  CHECK(ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 10), used_in(3, 2, 0, 20, 10)}}).empty());
  CHECK(ledger.record(WorkerId{2}, {{used_in(1, 1, 0, 10, 10), used_in(1, 2, 0, 20, 20)}}).empty());
  CHECK(ledger.record(WorkerId{1}, {{used_in(3, 3, 0, 30, 10), used_in(3, 4, 1, 0, 10)}}).empty());
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger.summary().samples == 50);
}

TEST_CASE("returned samples that no worker takes are missing once the epoch has passed") {
  Ledger ledger;
  ledger.set_sample_count(40);
  ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 10)}});
  ledger.fence({3, 1});
  ledger.record(WorkerId{2}, {{used_in(3, 1, 0, 10, 10)}});
  SUBCASE("the run ends here: they are open") {
    CHECK(ledger.summary().missing == 0);
  }
  SUBCASE("the next step leaves them out: they are lost") {
    ledger.record(WorkerId{2}, {{used_in(3, 2, 0, 20, 10)}});
    CHECK(ledger.summary().missing == 10);
  }
  SUBCASE("the next step takes them first, in pieces") {
    ledger.record(WorkerId{2}, {{used_in(3, 2, 0, 0, 10), used_in(3, 2, 0, 20, 5)}});
    CHECK(ledger.summary().missing == 0);
  }
  SUBCASE("the next epoch begins without them: they are lost") {
    ledger.record(WorkerId{2}, {{used_in(3, 2, 0, 20, 20), used_in(3, 3, 1, 0, 10)}});
    CHECK(ledger.summary().missing == 10);
  }
}

TEST_CASE("what rounds have returned is open in the last epoch only") {
  Ledger ledger;
  ledger.set_sample_count(40);
  ledger.returns_samples(true);
  ledger.record(WorkerId{1}, {{used_in(1, 3, 0, 0, 10)}});
  ledger.record(WorkerId{2}, {{used_in(1, 3, 0, 20, 5)}});
  CHECK(ledger.summary().missing == 0);
  ledger.record(WorkerId{2}, {{used_in(1, 9, 1, 0, 5)}});
  CHECK(ledger.summary().missing == 25);
}

TEST_CASE("a start from a checkpoint takes the account back to its step, over epochs") {
  Ledger ledger;
  ledger.set_sample_count(100);
  Step step = 0;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (std::uint64_t first = 0; first < 100; first += 20) {
      ++step;
      ledger.record(WorkerId{1}, {{used_in(1, step, epoch, first, 10)}});
      ledger.record(WorkerId{2}, {{used_in(1, step, epoch, first + 10, 10)}});
    }
  }
  CHECK(ledger.summary().samples == 300);
  CHECK(ledger.fence({2, 8}).empty());
  CHECK(ledger.summary().samples == 140);
  CHECK(ledger.summary().epochs == 2);
  CHECK(ledger.summary().steps == 7);
  for (Step again = 8; again <= 10; ++again) {
    CHECK(ledger.record(WorkerId{3}, {{used_in(2, again, 1, 20 * (again - 6), 20)}}).empty());
  }
  CHECK(ledger.summary().samples == 200);
  CHECK(ledger.summary().repeated == 0);
  CHECK(ledger.summary().missing == 0);
}

TEST_CASE("a batch that is sent again after a broken connection counts once") {
  Ledger ledger;
  CHECK(ledger.record(WorkerId{1}, {{used(1, 0, 0, 10)}, 1}).empty());
  CHECK(ledger.record(WorkerId{1}, {{used(3, 0, 40, 10)}, 3}).empty());
  CHECK(ledger.record(WorkerId{1}, {{used(1, 0, 0, 10)}, 1}).empty());
  CHECK(ledger.record(WorkerId{1}, {{used(2, 0, 20, 10)}, 2}).empty());
  CHECK(ledger.record(WorkerId{1}, {{used(3, 0, 40, 10)}, 3}).empty());
  CHECK(ledger.summary().samples == 30);
  CHECK(ledger.record(WorkerId{2}, {{used(3, 0, 40, 10)}, 3}).size() == 1);
}

TEST_CASE("the hashes of a void step are not compared with those of the step that counts") {
  Ledger ledger;
  protocol::AuditStep old = hashed(10, 0xabc);
  old.generation = 1;
  ledger.record(WorkerId{1}, {{old}});
  ledger.record(WorkerId{4}, {{old, used(11, 0, 0, 0)}});
  ledger.fence({2, 10});
  protocol::AuditStep fresh = hashed(10, 0xdef);
  fresh.generation = 2;
  CHECK(ledger.record(WorkerId{2}, {{fresh}}).empty());
  CHECK(ledger.record(WorkerId{3}, {{old}}).empty());
  CHECK(ledger.end({}).empty());
  CHECK(ledger.summary().unequal_hashes == 0);
}

TEST_CASE("fences may be reported repeatedly and in any order") {
  Ledger ledger;
  ledger.fence({5, 30});
  ledger.fence({3, 10});
  ledger.fence({5, 30});
  ledger.fence({4, 50});
  CHECK(ledger
            .record(WorkerId{1}, {{used_in(2, 10, 0, 0, 10), used_in(3, 20, 0, 0, 10), used_in(4, 29, 0, 10, 10),
                                   used_in(4, 30, 0, 0, 10), used_in(5, 99, 0, 20, 10)}})
            .empty());
  CHECK(ledger.summary().samples == 30);
}

TEST_CASE("a sample that was used twice stays repeated until one of the uses is void") {
  Ledger ledger;
  ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 10)}});
  CHECK(ledger.record(WorkerId{2}, {{used_in(1, 2, 0, 5, 10)}}).size() == 1);
  ledger.fence({2, 2});
  CHECK(ledger.summary().repeated == 0);
  CHECK(ledger.summary().samples == 10);
}

// w2 was lost in the update of step 3: its gradient counts, and it can report neither this step nor the one before.
TEST_CASE("survivors say what a dead member used; whatever several say counts once") {
  Ledger ledger;
  ledger.set_sample_count(60);
  ledger.record(WorkerId{2}, {{used_in(1, 1, 0, 10, 10)}, 1});
  ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 10), used_in(1, 2, 0, 20, 10), used_in(1, 3, 0, 40, 10)}, 1});
  const std::vector<protocol::AuditStep> of_w2{used_in(1, 1, 0, 10, 10), used_in(1, 2, 0, 30, 10),
                                               used_in(1, 3, 0, 50, 5), used_in(1, 3, 0, 55, 5)};
  CHECK(ledger.record(WorkerId{1}, {of_w2, 2, WorkerId{2}}).empty());
  CHECK(ledger.record(WorkerId{3}, {of_w2, 1, WorkerId{2}}).empty());
  // Its own report arrives last.
  CHECK(ledger.record(WorkerId{2}, {{used_in(1, 2, 0, 30, 10)}, 2}).empty());
  ledger.record(WorkerId{1}, {{used_in(1, 4, 1, 0, 10)}, 3});
  CHECK(ledger.summary().samples == 70);
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger.summary().repeated == 0);
}

// w2 was lost with its report of step 2. All others were lost too, and the run began again after step 2.
TEST_CASE("samples in a checkpoint are covered, whichever worker used them; those after the restart point are not") {
  Ledger ledger;
  ledger.set_sample_count(40);
  ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 10), used_in(1, 2, 0, 20, 10), used_in(1, 3, 1, 0, 10)}, 1});
  ledger.record(WorkerId{2}, {{used_in(1, 1, 0, 10, 10)}, 1});
  CHECK(ledger.summary().missing == 10);
  ledger.fence({3, 4});
  protocol::WorkerAudit held{{used_in(3, 3, 1, 0, 20)}, 1};
  held.from_checkpoint = true;
  CHECK(ledger.record(WorkerId{4}, held).empty());
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger.summary().samples == 60);
  CHECK(ledger.record(WorkerId{4}, {{used_in(3, 4, 1, 20, 20)}, 2}).empty());

  // That checkpoint was damaged after all: from step 2 on all samples are used again.
  ledger.fence({5, 2});
  CHECK(ledger.record(WorkerId{5}, {{used_in(5, 2, 0, 20, 20), used_in(5, 3, 1, 0, 20), used_in(5, 4, 1, 20, 20)}, 1})
            .empty());
  CHECK(ledger.summary().repeated == 0);
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger.summary().samples == 80);
}

TEST_CASE("from a checkpoint on samples may be counted in other units") {
  Ledger ledger;
  ledger.set_sample_count(40);
  ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 40), used_in(1, 2, 1, 0, 20)}, 1});
  ledger.set_sample_count(20);
  protocol::WorkerAudit held{{used_in(3, 2, 1, 0, 10)}, 1};
  held.from_checkpoint = true;
  held.counted_anew = 20;
  CHECK(ledger.record(WorkerId{2}, held).empty());
  CHECK(ledger.record(WorkerId{3}, {{used_in(3, 3, 1, 15, 5)}, 1}).empty());
  CHECK(ledger.record(WorkerId{2}, {{used_in(3, 3, 1, 10, 5)}, 2}).empty());
  CHECK(ledger.record(WorkerId{1}, {{used_in(1, 2, 1, 20, 10)}, 2}).empty());
  CHECK(ledger.summary().samples == 40);
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger.summary().repeated == 0);
  CHECK(ledger.record(WorkerId{2}, {{used_in(3, 4, 1, 10, 5)}, 3}).size() == 1);
}

TEST_CASE("another worker's step in the new units may be told before the checkpoint that they begin with") {
  Ledger ledger;
  ledger.set_sample_count(40);
  ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 20)}, 1});
  ledger.record(WorkerId{3}, {{used_in(3, 2, 0, 15, 5)}, 1});
  CHECK(ledger.summary().repeated == 5);  // as long as nothing is known of other units
  protocol::WorkerAudit held{{used_in(3, 1, 0, 0, 10)}, 1};
  held.from_checkpoint = true;
  held.counted_anew = 20;
  ledger.record(WorkerId{2}, held);
  ledger.record(WorkerId{2}, {{used_in(3, 2, 0, 10, 5)}, 2});
  CHECK(ledger.summary().samples == 20);
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger.summary().repeated == 0);
}

TEST_CASE("a gap in what was counted in other units stays one") {
  Ledger ledger;
  ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 10, 30), used_in(1, 2, 1, 0, 20)}, 1});
  protocol::WorkerAudit held{{used_in(3, 2, 1, 0, 10)}, 1};
  held.from_checkpoint = true;
  held.counted_anew = 20;
  ledger.record(WorkerId{2}, held);
  CHECK(ledger.summary().missing == 10);
}

TEST_CASE("an account that comes after the checkpoint that holds it repeats nothing") {
  Ledger ledger;
  ledger.set_sample_count(100);
  ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 10), used_in(1, 2, 0, 20, 10)}, 1});
  ledger.fence({3, 4});
  protocol::WorkerAudit held{{used_in(3, 3, 0, 0, 60)}, 1};
  held.from_checkpoint = true;
  ledger.record(WorkerId{4}, held);
  // The agent of worker 2 was disconnected: the samples of its worker until the checkpoint, and a step that is void
  // since.
  CHECK(ledger.record(WorkerId{2}, {{used_in(1, 1, 0, 10, 10), used_in(1, 2, 0, 30, 10), used_in(1, 4, 0, 60, 20)}, 1})
            .empty());
  CHECK(ledger.summary().samples == 60);
  CHECK(ledger.summary().missing == 0);
  // A worker that continues from the checkpoint does not use any of them again.
  CHECK(ledger.record(WorkerId{4}, {{used_in(3, 4, 0, 45, 20)}, 2}).size() == 1);
  CHECK(ledger.summary().repeated == 15);
  ledger.fence({5, 2});
  CHECK(ledger.summary().samples == 20);
  CHECK(ledger.summary().repeated == 0);
}

// w1 went on to step 4 after its checkpoint of step 2. w2 started again from there, and the supervisor was lost before
// it learned so. w3 started from a checkpoint of w2; then the host of w2 came back with what w2 had to say.
TEST_CASE("an account that comes late tells of a start from a checkpoint that nobody else saw") {
  Ledger ledger;
  ledger.set_sample_count(100);
  ledger.record(
      WorkerId{1},
      {{used_in(1, 1, 0, 0, 10), used_in(1, 2, 0, 10, 10), used_in(1, 3, 0, 20, 10), used_in(1, 4, 0, 30, 10)}, 1});
  ledger.fence({5, 7});
  protocol::WorkerAudit held{{used_in(5, 6, 0, 0, 60)}, 1};
  held.from_checkpoint = true;
  CHECK(ledger.record(WorkerId{3}, held).empty());
  CHECK(ledger.summary().samples == 60);

  protocol::WorkerAudit before{{used_in(3, 2, 0, 0, 20)}, 1};
  before.from_checkpoint = true;
  CHECK(ledger.record(WorkerId{2}, before).empty());
  CHECK(ledger.summary().samples == 60);  // in the checkpoint of w2, whoever used them
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger
            .record(WorkerId{2}, {{used_in(3, 3, 0, 20, 10), used_in(3, 4, 0, 30, 10), used_in(3, 5, 0, 40, 10),
                                   used_in(3, 6, 0, 50, 10), used_in(3, 7, 0, 60, 10)},
                                  2})
            .empty());
  CHECK(ledger.record(WorkerId{3}, {{used_in(5, 7, 0, 60, 10)}, 2}).empty());
  CHECK(ledger.summary().samples == 70);
  CHECK(ledger.summary().repeated == 0);
  CHECK(ledger.summary().missing == 0);
}

TEST_CASE("a supervisor that takes over knows the checkpoint before it knows how many samples an epoch has") {
  Ledger ledger;
  ledger.fence({3, 4});
  ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 20), used_in(1, 3, 1, 0, 10)}, 1});
  protocol::WorkerAudit held{{used_in(3, 3, 1, 0, 20)}, 1};
  held.from_checkpoint = true;
  ledger.record(WorkerId{4}, held);
  ledger.set_sample_count(40);
  CHECK(ledger.summary().samples == 60);
  CHECK(ledger.summary().missing == 0);
}

TEST_CASE("a checkpoint covers the epochs before its own, also unreported ones") {
  Ledger ledger;
  ledger.set_sample_count(40);
  protocol::WorkerAudit held{{used_in(3, 9, 2, 0, 20)}, 1};
  held.from_checkpoint = true;
  CHECK(ledger.record(WorkerId{4}, held).empty());
  CHECK(ledger.summary().epochs == 3);
  CHECK(ledger.summary().samples == 100);
  CHECK(ledger.summary().missing == 0);
  CHECK(ledger.summary().open == 20);
  // The worker that used them reports its account late.
  CHECK(ledger.record(WorkerId{1}, {{used_in(1, 1, 0, 0, 40), used_in(1, 5, 1, 0, 40)}, 1}).empty());
  CHECK(ledger.summary().samples == 100);
}

TEST_CASE("gaps are what is not there") {
  IntervalSet set;
  set.add(10, 10);
  set.add(30, 10);
  using Gaps = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  CHECK(set.gaps(0, 50) == Gaps{{0, 10}, {20, 10}, {40, 10}});
  CHECK(set.gaps(12, 5).empty());
  CHECK(set.gaps(15, 20) == Gaps{{20, 10}});
  CHECK(set.gaps(50, 5) == Gaps{{50, 5}});
}
