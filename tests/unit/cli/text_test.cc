#include <doctest/doctest.h>

#include "cli/config/label.h"
#include "cli/config/text.h"

using namespace elastictrain;
using namespace elastictrain::cli;

TEST_CASE("durations are read with and without units") {
  CHECK(*parse_duration_ms("90") == 90'000);
  CHECK(*parse_duration_ms("250ms") == 250);
  CHECK(*parse_duration_ms("5m") == 300'000);
  CHECK(*parse_duration_ms("1h30m") == 5'400'000);
  for (const char* wrong : {"", "m", "5x", "-3", "1.5h", "99999999999999999999", "5m3"}) {
    CAPTURE(wrong);
    CHECK(!parse_duration_ms(wrong).ok());
  }
}

TEST_CASE("the edit distance counts swapped neighbours once") {
  CHECK(edit_distance("workers", "workers") == 0);
  CHECK(edit_distance("wrokers", "workers") == 1);
  CHECK(edit_distance("workrs", "workers") == 1);
  CHECK(edit_distance("", "abc") == 3);
}

TEST_CASE("a word far from all candidates has no suggestion") {
  const std::vector<std::string> candidates = {"workers", "hosts"};
  CHECK(closest("wokers", candidates) == "workers");
  CHECK(!closest("elephant", candidates));
  CHECK(!closest("ab", candidates));
}

TEST_CASE("sets of ranks are read and asked") {
  const auto set = RankSet::parse("0,4-7");
  REQUIRE(set.ok());
  CHECK(set->contains(0));
  CHECK(set->contains(5));
  CHECK(!set->contains(1));
  CHECK(!set->contains(-1));
  CHECK(RankSet::parse("all")->contains(-1));
  CHECK(!RankSet::parse("none")->contains(0));
  for (const char* wrong : {"", "a", "3-1", "1-", "-1", "1;2"}) CHECK(!RankSet::parse(wrong).ok());
}

TEST_CASE("labels are filled from their template") {
  LabelValues values{.rank = "3",
                     .local_rank = "1",
                     .host = "node7",
                     .generation = "12",
                     .worker = "w9",
                     .stream = "err",
                     .time = "10:00:00.000",
                     .pid = "4711"};
  CHECK(Label::parse("[{host}:{rank}] ")->render(values, 2) == "[node7: 3] ");
  CHECK(Label::parse("{worker}/{gen}/{local_rank}/{stream}/{time}/{pid}")->render(values, 0) ==
        "w9/12/1/err/10:00:00.000/4711");
  CHECK(Label::parse("{{{rank}}}")->render(values, 0) == "{3}");
  CHECK(Label::parse("")->render(values, 0).empty());
  CHECK(!Label::parse("{rnak}").ok());
  CHECK(!Label::parse("{rank").ok());
}
