// Runs whose supervisor is lost: when their slots pass on.
#include <doctest/doctest.h>

#include "story.h"

namespace elastictrain::cluster_core::test {
namespace {

struct LostRun : Story {
  LostRun() {
    JobSpec spec;
    spec.arguments = {"--"};
    spec.min = spec.start = spec.max = 4;
    job_ = submit("job", spec);
    report(job_, 10, {});
    give(Disconnected{job_});
    order(job_, Order::kCancel);
  }
  void probe(Probed::State state) { give(Probed{job_, state, 0}); }
  Phase phase() const { return job(job_).phase; }
  // Its slots pass on when a whole grace is over from now.
  void check_grace_begins() {
    wait(2);
    probe(Probed::State::kDead);
    CHECK(phase() == Phase::kEnding);
    wait(grace_s);
    probe(Probed::State::kDead);
    CHECK(phase() == Phase::kEnded);
  }
  JobId job_ = 0;
  const double grace_s = plain().orphan_grace_s;
};

TEST_CASE_FIXTURE(LostRun, "its agents are orphans from when its supervisor was last known to live") {
  restart();  // so that its process is no child
  wait(grace_s - 1);
  probe(Probed::State::kAlive);
  check_grace_begins();
}

TEST_CASE_FIXTURE(LostRun, "they are orphans from the end of its process, not from the loss of its connection") {
  wait(grace_s - 1);
  give(ProcessEnded{job_, job(job_).attempt, 137, true, "killed"});
  check_grace_begins();
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
