// The slots that a run holds, and the speeds that it reports.
#include "supervisor/cluster/run_report.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace elastictrain;
using namespace elastictrain::cluster;

namespace {

constexpr AgentId kA{1};
constexpr AgentId kB{2};
constexpr Instant kStart{};

Instant at(int seconds) {
  return kStart + std::chrono::seconds(seconds);
}

heuristics::Interval interval(std::uint32_t workers, double seconds, std::uint64_t samples, bool warm_up = false) {
  heuristics::Interval made;
  made.end_s = seconds;
  made.workers = workers;
  made.samples = samples;
  made.warm_up = warm_up;
  return made;
}

}  // namespace

TEST_CASE("a slot is held as long as a process may be on it") {
  Holds holds;
  CHECK(holds.empty());
  holds.started(WorkerId{1}, kA, "a", 3);
  holds.started(WorkerId{2}, kA, "a", 1);
  holds.started(WorkerId{3}, kA, "a", 1);  // its successor, beside it
  holds.started(WorkerId{4}, kB, "b", 0);
  CHECK(holds.slots() == std::vector<HostSlots>{{"a", {1, 3}}, {"b", {0}}});
  holds.ended(WorkerId{2}, kA);
  CHECK(holds.slots() == std::vector<HostSlots>{{"a", {1, 3}}, {"b", {0}}});
  holds.ended(WorkerId{3}, kA);
  holds.ended(WorkerId{4}, kA);  // another agent cannot say so
  CHECK(holds.slots() == std::vector<HostSlots>{{"a", {3}}, {"b", {0}}});
}

TEST_CASE("workers that nobody reaches hold their slots until they must be over, unless they come back") {
  Holds holds;
  holds.started(WorkerId{1}, kA, "a", 0);
  holds.started(WorkerId{2}, kA, "a", 1);
  holds.started(WorkerId{3}, kB, "b", 0);
  CHECK_FALSE(holds.next().has_value());
  holds.out_of_reach(kA, at(60));
  holds.out_of_reach(kA, at(90));  // no longer than from the first time on
  CHECK(holds.next() == at(60));
  holds.pass(at(59));
  CHECK(holds.has(WorkerId{1}));
  holds.back(kA, {WorkerId{2}});
  CHECK(holds.slots() == std::vector<HostSlots>{{"a", {1}}, {"b", {0}}});
  holds.pass(at(1000));
  CHECK(holds.has(WorkerId{2}));
  holds.out_of_reach(kA, at(1060));
  holds.pass(at(1060));
  CHECK(holds.slots() == std::vector<HostSlots>{{"b", {0}}});
}

TEST_CASE("speeds are means of what was measured at a size, without first steps") {
  RateBook book;
  book.add({interval(2, 1, 1000, true), interval(2, 2, 400), interval(4, 1, 350)}, 1);
  book.add({interval(2, 1, 500)}, 1);
  CHECK(book.rates() == std::vector<Rate>{{2, 1, 300, 2}, {4, 1, 350, 1}});
  book.add({interval(4, 1, 100)}, 2);
  CHECK(book.rates().size() == 3);
  book.add({interval(2, 0, 100), interval(2, -1, 5), interval(0, 1, 5), interval(2, std::nan(""), 5)}, 1);
  CHECK(book.rates()[0].views == 2);
}

TEST_CASE("what was measured beside another job is kept apart, and an interval that has of both counts for nobody") {
  RateBook book;
  book.add({interval(2, 1, 1000), interval(2, 1, 1000)}, 1);
  book.set_beside("j2");
  for (int i = 0; i < 7; ++i) book.add({interval(2, 1, 400)}, 1);
  CHECK(book.rates() == std::vector<Rate>{{2, 1, 1000, 2}});
  CHECK(book.packed_rates() == std::vector<Rate>{{2, 1, 400, 6}});
  for (int i = 0; i < 7; ++i) book.add({interval(2, 1, 800)}, 1);
  CHECK(book.packed_rates()[0].samples_per_s > 750);
  CHECK(book.packed_rates()[0].views == 13);
  book.set_beside("j3");
  CHECK(book.packed_rates().empty());
  book.set_beside("");
  book.add({interval(2, 1, 1), interval(2, 1, 1000)}, 1);
  CHECK(book.rates() == std::vector<Rate>{{2, 1, 1000, 3}});
}

TEST_CASE("the newest speeds count most") {
  RateBook book;
  for (int i = 0; i < 200; ++i) book.add({interval(2, 1, 100)}, 1);
  for (int i = 0; i < 200; ++i) book.add({interval(2, 1, 300)}, 1);
  CHECK(book.rates()[0].samples_per_s > 290);
  CHECK(book.rates()[0].views <= kRememberedViews);
}
