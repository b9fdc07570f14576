// What a cluster does when a job says how fast it is at a size.
#include <doctest/doctest.h>

#include "story.h"

namespace elastictrain::jobs::test {
namespace {

Settings afs() {
  Settings settings = Story::plain();
  settings.policy = "afs-l";
  return settings;
}

// Seven slots, and two jobs of which each slot of any number is worth as much: four and three.
struct Equal : Story {
  JobId first = 0, second = 0;
  Equal() : Story(afs()) {
    change_hosts({{"h", 7}});
    JobSpec spec;
    spec.min = 1;
    spec.start = spec.max = 7;
    spec.samples_total = 1'000'000;
    first = submit("first", spec);
    second = submit("second", spec);
    for (const JobId id : {first, second}) report(id, 1000, {{2, 200, 3}});
    if (job(first).share < job(second).share) std::swap(first, second);
    REQUIRE(job(first).share == 4);
    REQUIRE(job(second).share == 3);
  }
};

TEST_CASE_FIXTURE(Equal, "a size that is as fast as was expected moves no slot, however the noise falls") {
  for (const double samples_per_s : {392.0, 408.0}) {
    report(first, 2000, {{2, 200, 3}, {4, samples_per_s, 3}});
    CHECK(job(first).share == 4);
  }
  report(second, 2000, {{2, 200, 3}, {3, 306, 3}});
  CHECK(job(first).share == 4);
}

TEST_CASE_FIXTURE(Equal, "a size that does not pay is given up at once") {
  report(first, 2000, {{2, 200, 3}, {4, 300, 3}});
  CHECK(job(first).share < 4);
  CHECK(job(second).share > 3);
}

}  // namespace
}  // namespace elastictrain::jobs::test
