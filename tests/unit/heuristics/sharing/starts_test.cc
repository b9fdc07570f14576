// What workers' starts cost, as a part of decisions: worked numbers. Starts of 6 s, jobs that scale linearly at a unit
// of work a second and slot.
#include "heuristics/sharing/starts.h"

#include <doctest/doctest.h>

#include "sharing_jobs.h"

namespace elastictrain::heuristics::sharing {
namespace {

constexpr double kStart_s = 6;

struct SlowStarts {
  Curve curve{{{1, 1.0}, {4, 4.0}}};
  View view;

  explicit SlowStarts(std::uint32_t slots, double now_s) {
    view.slots = slots;
    view.now_s = now_s;
  }
  JobView& add(double held, double remaining = kUnknown) {
    JobView job;
    job.id = view.jobs.size() + 1;
    job.curve = &curve;
    job.held = held;
    job.remaining = remaining;
    job.start_s = kStart_s;
    view.jobs.push_back(job);
    return view.jobs.back();
  }
  // It has its slots since `grown_s`, and trains on all of them since `trains_s`.
  JobView& trains(double held, double trains_s, double remaining = kUnknown) {
    JobView& job = add(held, remaining);
    job.starts.change(trains_s - kStart_s, 0, held);
    job.starts.train(trains_s);
    return job;
  }
  JobView& starts(double held, double grown_s, double remaining = kUnknown) {
    JobView& job = add(held, remaining);
    job.starts.change(grown_s, 0, held);
    return job;
  }
  Decision hold(const std::vector<double>& granted, bool elastic = true) const {
    Decision decision;
    for (const double slots : granted) decision.grants.push_back({slots, Why::kFits, 0});
    hold_starts(view, elastic, decision);
    return decision;
  }
};

using SlotsOfJobs = std::vector<double>;

TEST_CASE("a job whose workers start is not suspended for the next arrival") {
  SlowStarts cluster(1, 4);
  cluster.starts(1, 0);
  cluster.add(0);
  for (const bool elastic : {true, false}) {
    const Decision decision = cluster.hold({0, 1}, elastic);
    CHECK(slots_of(decision) == SlotsOfJobs{1, 0});
    CHECK(decision.grants[0].why == Why::kStarted);
    CHECK(decision.grants[1].why == Why::kStarts);
    CHECK(decision.again_s == 4 + 2 + 3 * kStart_s);
  }
}

TEST_CASE("it is suspended where that pays: 4 s of its start are lost, and spent again") {
  SlowStarts cluster(1, 4);
  cluster.starts(1, 0, 20);
  cluster.add(0, 11.9);
  CHECK(slots_of(cluster.hold({0, 1})) == SlotsOfJobs{0, 1});
  cluster.view.jobs[1].remaining = 12;
  CHECK(slots_of(cluster.hold({0, 1})) == SlotsOfJobs{1, 0});
}

TEST_CASE("a job that has come to train keeps its place for three times its start") {
  SlowStarts cluster(1, 17.9);
  cluster.trains(1, 0);
  cluster.add(0);
  CHECK(slots_of(cluster.hold({0, 1})) == SlotsOfJobs{1, 0});
  CHECK(cluster.hold({0, 1}).again_s == 18);
  cluster.view.now_s = 18;
  CHECK(slots_of(cluster.hold({0, 1})) == SlotsOfJobs{0, 1});
}

TEST_CASE("a job that waits for its first slot may have one on which another worker of a job starts") {
  SlowStarts cluster(4, 1);
  cluster.starts(4, 0);
  cluster.add(0);
  CHECK(slots_of(cluster.hold({2, 2})) == SlotsOfJobs{2, 2});
  CHECK(slots_of(cluster.hold({0, 4})) == SlotsOfJobs{1, 3});
}

TEST_CASE("a job that runs already has to wait until slots have been used for three starts") {
  SlowStarts cluster(4, 10);
  cluster.trains(1, 5);
  cluster.trains(3, 0);
  CHECK(slots_of(cluster.hold({2, 2})) == SlotsOfJobs{1, 3});
  cluster.view.now_s = 18;
  CHECK(slots_of(cluster.hold({2, 2})) == SlotsOfJobs{2, 2});
}

TEST_CASE("more slots are given where workers train there for half of their start, or three starts while jobs wait") {
  SlowStarts cluster(4, 100);
  cluster.trains(1, 0, 18);
  // After 6 s 12 are left: 3 s on four slots.
  CHECK(slots_of(cluster.hold({4})) == SlotsOfJobs{4});
  cluster.view.jobs[0].remaining = 17.9;
  CHECK(slots_of(cluster.hold({4})) == SlotsOfJobs{3});
  cluster.view.jobs[0].remaining = 8;
  CHECK(slots_of(cluster.hold({4})) == SlotsOfJobs{1});
  CHECK(cluster.hold({4}).grants[0].why == Why::kPays);
}

TEST_CASE("while jobs wait for their first slot a job begins with as many slots as pay, and the others are theirs") {
  SlowStarts cluster(4, 0);
  cluster.add(0, 40);
  cluster.add(0, 400);
  cluster.add(0, 400);
  // 40 on two slots: 20 s, more than three starts; on three: 13.3 s.
  CHECK(slots_of(cluster.hold({4, 0, 0})) == SlotsOfJobs{2, 1, 1});
}

TEST_CASE(
    "a job of unknown length that has not trained leaves slots on which nothing trains to jobs that have had none") {
  SlowStarts cluster(4, 1);
  cluster.starts(4, 0);
  cluster.add(0);
  const Decision decision = cluster.hold({4, 0});
  CHECK(slots_of(decision) == SlotsOfJobs{3, 1});
  CHECK(decision.grants[0].why == Why::kLeaves);
  CHECK(decision.grants[1].why == Why::kFirst);
  cluster.view.jobs[1].first_start_s = 0;  // it was suspended: its turn is the policy's affair
  CHECK(slots_of(cluster.hold({4, 0})) == SlotsOfJobs{4, 0});
  cluster.view.jobs[1].first_start_s = kNever;
  cluster.view.jobs[0].remaining = 1000;
  CHECK(slots_of(cluster.hold({4, 0})) == SlotsOfJobs{4, 0});
}

TEST_CASE("what trains stays, and so do slots of a job that has shown that it is long") {
  SlowStarts cluster(4, 100);
  cluster.trains(2, 80);
  cluster.add(0);
  JobView& job = cluster.view.jobs[0];
  job.starts.change(98, 2, 4);
  job.held = 4;
  job.done = 4 * 3 * kStart_s - 1;
  CHECK(slots_of(cluster.hold({4, 0})) == SlotsOfJobs{3, 1});
  job.done += 1;
  CHECK(slots_of(cluster.hold({4, 0})) == SlotsOfJobs{4, 0});
}

TEST_CASE("a job that needs more slots than are left to it gets none") {
  SlowStarts cluster(4, 1);
  cluster.starts(3, 0);
  cluster.add(0).least = 4;
  CHECK(slots_of(cluster.hold({4, 0})) == SlotsOfJobs{4, 0});
  cluster.view.jobs[1].least = 3;
  CHECK(slots_of(cluster.hold({4, 0})) == SlotsOfJobs{1, 3});
}

TEST_CASE("what was given and taken back twice is given again only after as many starts") {
  SlowStarts cluster(2, 30);
  JobView& job = cluster.trains(1, 0);
  for (const double at_s : {20.0, 24.0}) {
    job.starts.change(at_s, 1, 2);
    job.starts.change(at_s + 2, 2, 1);
  }
  CHECK(slots_of(cluster.hold({2})) == SlotsOfJobs{1});
  CHECK(cluster.hold({2}).again_s == 26 + 2 * kStart_s);
  cluster.view.now_s = 38;
  CHECK(slots_of(cluster.hold({2})) == SlotsOfJobs{2});
}

TEST_CASE("while a job waits for its least no later job begins") {
  SlowStarts cluster(4, 1);
  cluster.starts(4, 0);
  cluster.add(0).least = 4;
  cluster.add(0);
  CHECK(slots_of(cluster.hold({2, 1, 1})) == SlotsOfJobs{4, 0, 0});
}

TEST_CASE("where starts cost nothing, or jobs share slots, a decision stays as it is") {
  SlowStarts cluster(2, 1);
  cluster.add(2).start_s = 0;
  cluster.add(0).start_s = 0;
  CHECK(slots_of(cluster.hold({0, 2})) == SlotsOfJobs{0, 2});
  SlowStarts packed(1, 1);
  packed.starts(1, 0);
  packed.add(0);
  Decision decision;
  decision.grants = {{1, Why::kTurn, 0}, {1, Why::kTried, 0, 1}};
  hold_starts(packed.view, true, decision);
  CHECK(slots_of(decision) == SlotsOfJobs{1, 1});
}

TEST_CASE("a job that runs as requested gets all of its slots or none, and what is left goes back") {
  SlowStarts cluster(3, 4);
  cluster.starts(1, 0);
  cluster.trains(2, -100);
  cluster.add(0).requested = 3;
  cluster.view.jobs[1].requested = 2;
  CHECK(slots_of(cluster.hold({0, 0, 3}, false)) == SlotsOfJobs{1, 2, 0});
}

}  // namespace
}  // namespace elastictrain::heuristics::sharing
