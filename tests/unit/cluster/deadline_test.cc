// Deadlines of jobs of a cluster, told as stories: what is measured in views that arrive one by one is acted upon when
// it becomes a measurement, and when it changes.
#include <doctest/doctest.h>

#include <string>

#include "story.h"

namespace elastictrain::cluster_core::test {
namespace {

// 198,000 samples in 1,000 s, a tenth of which is a margin: 220 samples a second, two workers of 150.
struct Given : Story {
  JobId late = submit("late", 1000, 198'000);
  JobId fast = 0;
  Given() {
    report(late, 0, {{4, 600, 1}});
    fast = submit("fast", std::nullopt, 100'000'000);
    report(fast, 0, {{1, 5000, 3}});
  }
};

TEST_CASE_FIXTURE(Given, "few views of a job say more of it than what other jobs do") {
  CHECK(job(late).slots_in_time == 2);
  report(late, 100, {{4, 600, 1}, {2, 300, 1}});
  CHECK(job(late).slots_in_time == 2);
  CHECK(job(late).why.find("2 slots for its deadline") != std::string::npos);
}

TEST_CASE_FIXTURE(Given, "a size counts from its third view on, and is decided anew then") {
  report(late, 100, {{4, 600, 1}, {2, 210, 1}});
  CHECK(job(late).slots_in_time == 2);  // (150 + 105) / 2 each, of two views
  report(late, 200, {{4, 600, 1}, {2, 210, 2}});
  CHECK(job(late).slots_in_time == 2);
  report(late, 300, {{4, 600, 1}, {2, 210, 3}});
  CHECK(job(late).slots_in_time == 3);  // 105 each
}

TEST_CASE_FIXTURE(Given, "a job that slows down is given more before its deadline is lost") {
  report(late, 0, {{2, 300, 10}});
  REQUIRE(job(late).share == 2);
  wait(500);
  report(late, 110'000, {{2, 300, 10}});
  CHECK(job(late).slots_in_time == 2);
  wait(150);
  report(late, 120'000, {{2, 235, 20}});  // 78,000 in 350 s: 223 are needed, 235 less a twentieth are had
  CHECK(job(late).slots_in_time == 3);
  CHECK(job(late).share == 3);
}

TEST_CASE_FIXTURE(Given, "a restart of the cluster decides nothing before it knows again what a deadline needs") {
  report(late, 0, {{2, 300, 10}});
  const JobId third = submit("third", std::nullopt, 100'000'000);
  const JobId fourth = submit("fourth", std::nullopt, 100'000'000);
  REQUIRE(job(late).share == 2);
  REQUIRE(job(fourth).share == 0);
  restart();
  for (const JobId id : {late, fast, third}) join(id);
  report(fast, 0, {{1, 5000, 3}});
  report(third, 0, {{1, 5000, 3}});
  CHECK(job(fourth).share == 0);
  report(late, 0, {{2, 300, 10}});
  CHECK(job(late).share == 2);
  CHECK(job(late).slots_in_time == 2);
  CHECK(job(fourth).share == 0);
}

TEST_CASE_FIXTURE(Given, "a deadline that is lost asks for nothing more") {
  report(late, 0, {{2, 300, 10}});
  wait(900);
  report(late, 1000, {{2, 300, 10}});
  CHECK_FALSE(job(late).in_time);
  CHECK(job(late).why.find("cannot be kept") != std::string::npos);
}

TEST_CASE("a job that comes again is expected to be as fast as the last one of its name, which has ended") {
  Story story;
  const JobId before = story.submit("train", std::nullopt, 1000);
  story.report(before, 500, {{1, 100, 3}, {2, 200, 3}});
  story.give(RunEnded{before, 0});
  for (const bool restarted : {false, true}) {
    if (restarted) story.restart();
    const JobId again = story.submit("train", 1000, 110'000);  // 900 s without the margin: 122 samples a second
    CHECK(story.told().find("; it needs 2 slots for its deadline") != std::string::npos);
    story.order(again, Order::kCancel);
    story.give(RunEnded{again, 0});
  }
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
