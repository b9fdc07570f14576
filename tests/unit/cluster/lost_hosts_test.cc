// Hosts that a run of a cluster has found lost although the list still names them.
#include <doctest/doctest.h>

#include "story.h"

namespace elastictrain::jobs::test {
namespace {

JobSpec whole_host() {
  JobSpec spec;
  spec.arguments = {"--"};
  spec.min = spec.start = spec.max = 4;
  spec.suspends = true;
  return spec;
}

// One host of four slots, and a job that needs them all and has lost it.
struct Lost : Story {
  Lost() : job_(submit("job", whole_host())) {
    report(job_, 10, {}, {0});
    REQUIRE(slots() == 0);
  }
  std::size_t slots() const { return cluster().book().lease(job_).slots.size(); }
  void forget() { report(job_, 10, {}, {}); }  // the host is not in its lease any more
  void at(double seconds_later) {
    wait(seconds_later);
    give(Tick{});
  }
  JobId job_;
};

TEST_CASE_FIXTURE(Lost, "it is tried again after ten seconds, and after twice as long each time that it fails") {
  for (const double wait_s : {10.0, 20.0, 40.0}) {
    forget();
    at(wait_s - 1);
    CHECK(slots() == 0);
    at(1);
    REQUIRE(slots() == 4);
    report(job_, 10, {}, {0});
    REQUIRE(slots() == 0);
  }
}

TEST_CASE_FIXTURE(Lost, "what a run has found is forgotten when its process has ended") {
  give(Disconnected{job_});
  give(Probed{job_, Probed::State::kEnded, 75});
  CHECK(job(job_).phase == Phase::kQueued);
  at(11);
  CHECK(job(job_).share == 4);
}

}  // namespace
}  // namespace elastictrain::jobs::test
