// Hosts that a run of a cluster has found lost although the list still names them.
#include <doctest/doctest.h>

#include "story.h"

namespace elastictrain::cluster_core::test {
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

TEST_CASE_FIXTURE(Lost, "a run that ends because it cannot start there waits in the queue, however often") {
  const auto end = [&](int status) {
    give(RunEnded{job_, status});
    give(ProcessEnded{job_, job(job_).attempt, status, false, ""});
  };
  end(75);
  for (int tries = 0; tries < 10; ++tries) {
    at(9);
    CHECK(job(job_).share == 0);
    at(600);
    REQUIRE(job(job_).share == 4);
    join(job_);
    report(job_, 10, {}, {0});
    end(69);
    REQUIRE(job(job_).phase == Phase::kQueued);
    CHECK(job(job_).resume);  // from where it was
  }
}

TEST_CASE("what has saved nothing is started anew, also after the cluster has been started again") {
  Story story;
  const JobId id = story.submit("job", whole_host());
  story.report(id, 0, {}, {0});
  story.give(RunEnded{id, 69});
  CHECK_FALSE(story.job(id).resume);
  story.restart();
  CHECK_FALSE(story.job(id).resume);
}

TEST_CASE("a run that has trained and ends without a checkpoint has ended") {
  Story story;
  const JobId id = story.submit("job", whole_host());
  story.report(id, 10, {}, {0});
  story.give(RunEnded{id, 69});
  CHECK(story.job(id).phase == Phase::kEnded);
}

TEST_CASE("a run that cannot start although no host is lost is tried a few times") {
  Story story;
  const JobId id = story.submit("job", whole_host());
  for (std::uint32_t tries = 1; tries < Story::plain().max_failures; ++tries) {
    story.give(RunEnded{id, 69});
    REQUIRE(story.job(id).phase == Phase::kQueued);
    story.wait(60);
    story.give(Tick{});
    story.join(id);
  }
  story.give(RunEnded{id, 69});
  CHECK(story.job(id).phase == Phase::kEnded);
  CHECK(story.job(id).why == "too few of its workers could start, again and again without progress");
}

TEST_CASE("a run that ends before it joins is tried as often") {
  Story story;
  const JobId id = story.submit("job", whole_host());
  const auto end_process = [&] { story.give(ProcessEnded{id, story.job(id).attempt, 69, false, "in use"}); };
  story.give(RunEnded{id, 69});
  end_process();
  for (std::uint32_t tries = 2; tries <= Story::plain().max_failures; ++tries) {
    REQUIRE(story.job(id).phase == Phase::kQueued);
    story.wait(60);
    story.give(Tick{});
    REQUIRE(story.job(id).phase == Phase::kStarting);
    end_process();
  }
  CHECK(story.job(id).phase == Phase::kEnded);
}

TEST_CASE_FIXTURE(Lost, "what a run has found is forgotten when its process has ended") {
  give(Disconnected{job_});
  give(Probed{job_, Probed::State::kEnded, 75});
  CHECK(job(job_).phase == Phase::kQueued);
  at(11);
  CHECK(job(job_).share == 4);
}

TEST_CASE("a run that is to start again on a lost host has its slots for itself when its agents have ended") {
  Story story;
  story.change_hosts({{"h1", 2}, {"h2", 4}});
  JobSpec spec;
  spec.arguments = {"--"};
  spec.min = spec.start = spec.max = 3;
  spec.one_host = true;
  const JobId first = story.submit("first", spec);
  spec.one_host = false;
  const JobId second = story.submit("second", spec);
  const Slots own = story.cluster().book().owned(first);
  Report starts;  // it holds nothing yet
  starts.connection = first;
  starts.lease = story.cluster().book().lease(first).version;
  story.give(starts);
  story.give(Disconnected{first});
  story.give(ProcessEnded{first, story.job(first).attempt, 137, true, "killed"});
  story.give(Probed{first, Probed::State::kDead});
  story.give(ProcessEnded{first, story.job(first).attempt, 69, false, "in use"});
  story.report(second, 10, {}, {own.front().host});
  REQUIRE(story.job(first).phase == Phase::kQueued);
  REQUIRE(story.job(first).share == 0);
  story.wait(Story::plain().orphan_grace_s - 1);
  story.give(Tick{});
  CHECK(story.cluster().book().owned(first) == own);
  story.wait(1);
  story.give(Tick{});
  story.give(Tick{});
  CHECK(story.job(first).share == 3);
}

// Two jobs on two hosts of two slots each; the second one has lost the second host.
struct Shared : Story {
  explicit Shared(const Owner& owner) {
    change_hosts({{"h1", 2}, {"h2", 2}});
    JobSpec spec;
    spec.min = 1;
    spec.start = spec.max = 4;
    spec.suspends = true;
    first = submit("first", spec);
    second = submit("second", spec, {}, owner);
    for (const JobId id : {first, second}) report(id, 1, {});
    on_second_host = cluster().book().lease(second).slots.front().host;
    REQUIRE(share(first) == 2);
    REQUIRE(share(second) == 2);
  }
  std::uint32_t share(JobId id) const { return job(id).share; }
  void lose(JobId id) { report(id, 10, {}, {on_second_host}); }
  JobId first = 0, second = 0;
  std::uint32_t on_second_host = 0;
};

TEST_CASE("what a job of the cluster's user has lost is shared by nobody, and the rest evenly") {
  Shared story({0, "root", true});
  story.lose(story.second);
  CHECK(story.share(story.first) == 1);
  CHECK(story.share(story.second) == 1);
  story.report(story.second, 20, {}, {});
  story.wait(11);
  story.give(Tick{});
  CHECK(story.share(story.first) == 2);  // of the two hosts; the other one does not join it on both network cards
}

TEST_CASE("what another user's job says to have lost is lost for that job only") {
  Shared story({7, "other", false});
  story.lose(story.second);
  CHECK(story.share(story.first) == 2);
}

TEST_CASE("a host on which a job works is not lost, whatever another one says") {
  Shared story({0, "root", true});
  story.order(story.second, Order::kPause);
  REQUIRE(story.share(story.first) == 4);
  story.order(story.second, Order::kResume);
  for (const JobId id : {story.first, story.second}) story.report(id, 2, {});
  REQUIRE(story.share(story.second) == 2);
  const std::uint32_t other = story.cluster().book().lease(story.first).slots.front().host;
  story.report(story.second, 10, {}, {other});
  CHECK(story.share(story.first) == 2);
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
