// A job that changes some time after the search has settled on a size.
#include "tests/support/changing_job.h"

#include <doctest/doctest.h>

namespace elastictrain::test {
namespace {

TEST_CASE("a job whose sizes all become slower or faster alike keeps its size") {
  for (const auto& job : jobs_slower_alike()) {
    CAPTURE(job.name);
    for (const Followed& followed : follow(job.before, job.after)) CHECK(followed.most_changes == 0);
  }
}

TEST_CASE("a job that scales in another way than before is at its right size within a minute, in few changes") {
  for (const auto& job : jobs_that_scale_differently()) {
    CAPTURE(job.name);
    for (const Followed& followed : follow(job.before, job.after)) {
      CHECK(followed.most_changes <= 4);
      CHECK(followed.wrong == 0);
    }
  }
}

}  // namespace
}  // namespace elastictrain::test
