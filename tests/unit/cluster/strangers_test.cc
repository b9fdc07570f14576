// Runs of other users: what they may say of themselves, and what they leave behind.
#include <doctest/doctest.h>

#include "story.h"

namespace elastictrain::cluster_core::test {
namespace {

constexpr Owner kStranger{1001, "eve", false};
constexpr Connection kOfStranger = 70;

Join stranger(const std::string& name) {
  Join join;
  join.connection = kOfStranger;
  join.owner = kStranger;
  join.directory = "/home/eve/" + name;
  join.pid = 4242;
  join.spec.name = name;
  return join;
}

JobSpec all_slots() {
  JobSpec spec;
  spec.arguments = {"--"};
  spec.min = spec.start = spec.max = 4;
  return spec;
}

// A cluster of four slots that has one job of its own user, with a connection, on all of them.
struct Shared : Story {
  Shared() : own(submit("own", all_slots())) { report(own, 10, {}); }

  // It is refused, and nothing is known of it afterwards.
  void check_refused(const Join& join) {
    const auto jobs_before = cluster().jobs().size();
    const auto records_before = journal().size();
    give(join);
    CHECK(cluster().jobs().size() == jobs_before);
    CHECK(journal().size() == records_before);
    CHECK(cluster().waiting().empty());
  }
  std::size_t slots_of(JobId id) const { return cluster().book().lease(id).slots.size(); }
  JobId last() const { return cluster().jobs().rbegin()->first; }

  JobId own;
};

TEST_CASE_FIXTURE(Shared, "a run that claims a slot of another job is refused and leaves no job behind") {
  Join join = stranger("thief");
  join.lease = 1;
  join.holds = {{0, 0}};
  check_refused(join);
}

TEST_CASE_FIXTURE(Shared, "so is one that claims a slot that is not there, or a lease that nobody gave it") {
  Join join = stranger("thief");
  join.holds = {{7, 0}};
  check_refused(join);
  join = stranger("thief");
  join.lease = 9;
  check_refused(join);
}

TEST_CASE("a run that claims a free slot is refused and leaves no job behind, also where nothing is in use") {
  Story story;
  Join join = stranger("thief");
  join.holds = {{0, 3}};
  story.give(join);
  CHECK(story.cluster().jobs().empty());
}

TEST_CASE_FIXTURE(Shared, "a job of another user, or a name that is in use, is refused") {
  Join join = stranger("own");
  join.job = id_text(own);
  check_refused(join);
  give(stranger("first"));
  REQUIRE(last() != own);
  Join second = stranger("first");
  second.connection = kOfStranger + 1;
  second.pid = 4243;
  second.directory = "/home/eve/elsewhere";
  const auto records_before = journal().size();
  give(second);
  CHECK(journal().size() == records_before);
  CHECK(job(last()).connection == kOfStranger);
}

TEST_CASE("while runs come back after a restart, a stranger takes no slot that another job has been leased") {
  Story story;
  JobSpec spec = all_slots();
  spec.max = 8;
  const JobId own = story.submit("own", spec);
  story.change_hosts({{"h", 8}});  // the run has not said by a join that it uses the second half
  story.restart();
  Join join = stranger("thief");
  join.holds = {{0, 7}};
  story.give(join);
  CHECK(story.cluster().jobs().size() == 1);
  CHECK(story.cluster().book().lease(own).slots.size() == 8);
}

TEST_CASE_FIXTURE(Shared, "a run that joins again with sizes that nobody can have is refused, and holds up nobody") {
  give(stranger("run"));
  const JobId id = last();
  REQUIRE(id != own);
  Join again = stranger("run");
  again.connection = kOfStranger + 1;
  again.spec.min = again.spec.start = again.spec.max = 100'000;
  const auto records_before = journal().size();
  give(again);
  CHECK(journal().size() == records_before);
  CHECK(job(id).spec.min == 1);
  again.spec = stranger("run").spec;
  again.spec.hosts = {"nowhere"};
  give(again);
  again.spec.hosts.assign(10'000, "h");
  give(again);
  CHECK(job(id).spec.hosts.empty());
  CHECK(job(id).connection == kOfStranger);
}

TEST_CASE("a run that joins again as it was is let in, although hosts have gone meanwhile") {
  Story story;
  Join join = stranger("run");
  join.spec.min = join.spec.start = join.spec.max = 4;
  story.give(join);
  const JobId id = story.cluster().jobs().rbegin()->first;
  story.change_hosts({{"h", 2}});
  join.connection = kOfStranger + 1;
  join.lease = story.cluster().book().lease(id).version;
  story.give(join);
  CHECK(story.job(id).connection == kOfStranger + 1);
}

TEST_CASE("while runs come back after a restart, a stranger claims no more free slots than its limit") {
  Settings settings = Story::plain();
  settings.limits = [](const Owner& owner) {
    Limits limits;
    if (!owner.of_cluster) limits.slots = 2;
    return limits;
  };
  Story story(settings);
  JobSpec spec = all_slots();
  spec.min = spec.start = spec.max = 1;
  story.submit("own", spec);
  story.restart();
  Join join = stranger("thief");
  join.limits = settings.limits(join.owner);
  join.holds = {{0, 1}, {0, 2}, {0, 3}};
  story.give(join);
  CHECK(story.cluster().jobs().size() == 1);
  join.holds = {{0, 1}, {0, 2}};
  story.give(join);
  CHECK(story.cluster().jobs().size() == 2);
}

TEST_CASE_FIXTURE(Shared, "speeds that a run invents take no more memory than those that one can measure") {
  give(stranger("run"));
  const JobId id = last();
  Report report;
  report.connection = kOfStranger;
  report.phase = "waiting";
  for (std::uint32_t workers = 1; workers <= 5000; ++workers) {
    report.rates.push_back({workers, 1.0 * workers, 3, false, workers});
    if (workers % 1000 != 0) continue;
    give(report);
    report.rates.clear();
  }
  CHECK(job(id).rates.size() <= kMostRates);
  CHECK(job(id).rates_by_hosts.size() <= kMostRates);
  CHECK(job(id).rates.at(1).samples_per_s == 1);
  report.rates = {{1, 2.0, 3, false, 1}};
  give(report);
  CHECK(job(id).rates.at(1).samples_per_s == 2);
  give(RunEnded{kOfStranger, 0});
  CHECK(job(id).rates.size() == kMostRatesOfEnded);
  CHECK(job(id).rates_by_hosts.empty());
}

// Its connection is lost, and what it has named on disk is not looked at (Probed::State::kUnknown).
struct LostStranger : Shared {
  LostStranger() {
    give(RunEnded{own, 0});
    Join join = stranger("run");
    join.spec.max = join.spec.start = join.spec.min = 4;
    give(join);
    id = last();
    REQUIRE(slots_of(id) == 4);
    waiter = submit("waiter", all_slots());
    REQUIRE(slots_of(waiter) == 0);
  }
  void probe() { give(Probed{id, Probed::State::kUnknown, 0}); }
  void check_ends_after_grace() {
    wait(plain().orphan_grace_s - 1);
    probe();
    CHECK(job(id).live());
    wait(1);
    probe();
    CHECK_FALSE(job(id).live());
    CHECK(slots_of(waiter) == 4);
  }
  JobId id = 0, waiter = 0;
};

TEST_CASE_FIXTURE(LostStranger, "a lost run of another user ends when a grace is over, and its slots pass on") {
  give(Disconnected{kOfStranger});
  check_ends_after_grace();
}

TEST_CASE_FIXTURE(LostStranger, "it does so after a restart of the cluster, too") {
  restart();
  check_ends_after_grace();
}

TEST_CASE_FIXTURE(LostStranger, "and so does one that was told to end before") {
  order(id, Order::kCancel);
  give(Disconnected{kOfStranger});
  check_ends_after_grace();
}

TEST_CASE("a run of another user whose join was written down by half ends after a grace") {
  Story story;
  story.give(stranger("run"));
  const JobId id = story.cluster().jobs().rbegin()->first;
  story.forget_since<record::HasJoined>();
  story.restart();
  story.wait(Story::plain().orphan_grace_s);
  story.give(Probed{id, Probed::State::kUnknown, 0});
  CHECK_FALSE(story.job(id).live());
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
