// Hosts of helper jobs: how many slots the jobs of a cluster could use, and what is remembered of the hosts that came.
#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "story.h"

namespace elastictrain::cluster_core::test {
namespace {

using What = HelpersChanged::What;

Settings growing(std::uint32_t most_slots = 16) {
  Settings settings = Story::plain();
  settings.most_slots = most_slots;
  return settings;
}

JobSpec sizes(std::uint32_t min, std::uint32_t start, std::uint32_t max) {
  JobSpec spec;
  spec.min = min;
  spec.start = start;
  spec.max = max;
  return spec;
}

// Four slots there, sixteen at most.
struct Given : Story {
  Given() : Story(growing()) {}
  std::uint32_t needed() const { return cluster().demand().needed; }
  std::string why() const { return cluster().demand().why; }
};

TEST_CASE_FIXTURE(Given, "jobs that wait need the slots that their users would run them on") {
  CHECK(needed() == 0);
  JobSpec leaves = sizes(1, 2, 8);
  leaves.suspends = true;
  const JobId first = submit("first", leaves);
  CHECK(needed() == 2);
  CHECK(why().empty());
  submit("second", sizes(4, 4, 4));
  submit("third", sizes(1, 3, 3));
  CHECK(needed() == 9);
  CHECK(why() == "j2, j3 wait");
  order(first, Order::kPause);
  CHECK(needed() == 7);
}

TEST_CASE_FIXTURE(Given, "a job that trains needs what pays, up to twice what it has been measured with") {
  const JobId job = submit("job", sizes(1, 4, 12));
  CHECK(needed() == 4);
  report(job, 100, {{4, 400, 2}});  // two views are no measurement
  CHECK(needed() == 4);
  report(job, 200, {{4, 400, 3}});
  CHECK(needed() == 8);
  CHECK(why() == "j1 would gain");
  // From 4 to 8 a slot brings 51 samples a second, more than half of 100; at 8 one brings 75 on average.
  report(job, 300, {{4, 400, 3}, {8, 604, 3}});
  CHECK(needed() == 12);
  // 20 are less than half of 100; beyond 8 nothing was measured, and a line through the last size pays.
  report(job, 400, {{4, 400, 3}, {8, 480, 3}});
  CHECK(needed() == 12);
  report(job, 500, {{4, 400, 3}, {8, 480, 3}, {12, 490, 3}});
  CHECK(needed() == 4);
}

TEST_CASE_FIXTURE(Given, "limits, wishes, and the most that the cluster may have, bound what is needed") {
  Limits limits;
  limits.slots = 6;
  const JobId first = submit("first", sizes(1, 4, 4), limits);
  submit("second", sizes(1, 4, 4), limits);
  CHECK(needed() == 6);
  limits.slots = kNoLimit;
  limits.running = 1;
  Story other(growing(5));
  other.submit("a", sizes(1, 3, 3), limits);
  other.submit("b", sizes(1, 3, 3), limits);
  CHECK(other.cluster().demand().needed == 3);
  Story small(growing(5));
  for (const char* name : {"a", "b"}) small.submit(name, sizes(1, 3, 3));
  CHECK(small.cluster().demand().needed == 5);
  JobSpec one_host = sizes(1, 8, 8);
  one_host.one_host = true;
  Story narrow(growing());
  narrow.submit("a", one_host);
  CHECK(narrow.cluster().demand().needed == 4);
  report(first, 1, {});
}

TEST_CASE_FIXTURE(Given, "a job that more hosts could hold waits for them, and one that they could not is refused") {
  submit("wide", sizes(16, 16, 16));
  CHECK(needed() == 16);
  Outcome outcome = Outcome::kDone;
  const std::string refusal = cluster().refusal({0, "root", true}, {}, sizes(17, 17, 17), outcome);
  CHECK(outcome == Outcome::kUnavailable);
  CHECK(refusal.find("has 16 slots at most") != std::string::npos);
}

TEST_CASE_FIXTURE(Given, "helpers are remembered through a restart, and so are those that are being left") {
  submit("a", sizes(1, 4, 4));
  submit("b", sizes(1, 2, 2));
  give(HelpersChanged{What::kAsked, 2, "", {}});
  CHECK(cluster().asked_slots() == 2);
  const auto& asked = std::get<record::Helpers>(journal().back());
  CHECK(asked.needed == 6);
  CHECK(asked.why == "j1 would gain");
  const std::vector<HostLine> helpers = {{"help", 2, "77"}};
  give(HelpersChanged{What::kCame, 2, "help", helpers});
  CHECK(cluster().asked_slots() == 0);
  change_hosts({{"h", 4}, helpers[0]});
  restart();
  CHECK(cluster().helpers() == helpers);
  CHECK(cluster().hosts()[1].job == "77");
  give(HelpersChanged{What::kReturned, 2, "help", {}});
  restart();
  CHECK(cluster().helpers().empty());
  CHECK_FALSE(cluster().needs(record::Helpers{{What::kCame, 2, "help", helpers}, 0, ""}));
}

TEST_CASE("the slots of a helper that goes are used until they are given back") {
  Story story(growing());
  story.change_hosts({{"h", 1}, {"help", 1, "7"}});
  const JobId job = story.submit("a", sizes(1, 2, 2));
  story.report(job, 1, {});
  CHECK(story.cluster().demand().hosts[1].used == 1);
  story.change_hosts({{"h", 1}});
  CHECK(story.cluster().demand().hosts[1].slots == 0);
  CHECK(story.cluster().demand().hosts[1].used == 0);  // its run has left at a step
  CHECK(story.job(job).share == 1);
}

TEST_CASE("a helper that brought more than there may be raises no limit") {
  Story story(growing(8));
  story.submit("job", sizes(1, 12, 12));
  CHECK(story.cluster().demand().needed == 8);
  story.give(HelpersChanged{What::kCame, 5, "x1", {{"x1", 5, "1"}}});
  story.change_hosts({{"h", 4}, {"x1", 5, "1"}});
  CHECK(story.cluster().demand().needed == 8);
}

// One slot each: the first job stays on node1, the second one grows onto the others. It is another user's: what it says
// of hosts holds for itself only.
struct ThreeHosts : Story {
  JobId stays = 0, grows = 0;
  ThreeHosts() : Story(growing()) {
    change_hosts({{"node1", 1}});
    JobSpec spec = sizes(1, 1, 1);
    spec.suspends = true;
    stays = submit("stays", spec);
    spec.max = 2;
    grows = submit("grows", spec, {}, {7, "other", false});
    change_hosts({{"node1", 1}, {"node2", 1, "2"}, {"node3", 1, "3"}});
    REQUIRE(job(grows).share == 2);
  }
  // Its number: there was another host before.
  static constexpr std::uint32_t kNode1 = 1, kNode2 = 2, kNode3 = 3;
  bool is_at(JobId id, std::uint32_t host) const {
    return cluster().book().lease(id).slots == Slots{heuristics::leases::Slot{host, 0}};
  }
};

TEST_CASE_FIXTURE(ThreeHosts, "a host that one job has lost is not exchanged for that of a job that trains") {
  report(grows, 1, {}, {kNode2});
  CHECK(is_at(stays, kNode1));
  CHECK(is_at(grows, kNode3));
  report(grows, 2, {}, {kNode2, kNode3});
  CHECK(is_at(grows, kNode1));  // a job that could not train at all otherwise
  CHECK(job(stays).share == 1);
}

TEST_CASE_FIXTURE(ThreeHosts, "a host that comes back by another helper job is reached by that one") {
  change_hosts({{"node1", 1}, {"node3", 1, "3"}});
  CHECK(is_at(grows, kNode3));
  change_hosts({{"node1", 1}, {"node2", 1, "4"}, {"node3", 1, "3"}});
  CHECK(cluster().hosts()[kNode2].job == "4");
  CHECK(job(grows).share == 2);
  order(grows, Order::kCancel);
  CHECK(is_at(stays, kNode1));
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
