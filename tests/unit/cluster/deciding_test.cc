// One decision of a cluster: who is granted what, who keeps and who gives, and what is said of it. Worked numbers.
#include "supervisor/cluster/core/deciding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "story.h"
#include "tests/support/in_a_process.h"

namespace elastictrain::cluster_core::test {
namespace {

using heuristics::sharing::Why;

JobSpec sizes(std::uint32_t min, std::uint32_t start, std::uint32_t max, std::int32_t priority = 0) {
  JobSpec spec;
  spec.arguments = {"--"};
  spec.min = min;
  spec.start = start;
  spec.max = max;
  spec.priority = priority;
  return spec;
}

Slots numbers(std::initializer_list<std::uint32_t> of, std::uint32_t host = 0) {
  Slots slots;
  for (const std::uint32_t number : of) slots.push_back({host, number});
  return slots;
}

struct Deciding : Story {
  using Story::Story;

  const record::Decided& last() const {
    const record::Decided* last = nullptr;
    for (const Record& record : journal()) {
      if (const auto* one = std::get_if<record::Decided>(&record)) last = one;
    }
    REQUIRE(last != nullptr);
    return *last;
  }
  std::size_t decisions() const {
    return static_cast<std::size_t>(std::count_if(journal().begin(), journal().end(), [](const Record& record) {
      return std::holds_alternative<record::Decided>(record);
    }));
  }
  const heuristics::leases::Lease& lease(JobId id) const { return cluster().book().lease(id); }
  void follow() { change_hosts({{"h", 4}}); }
};

// --- What is granted

TEST_CASE_FIXTURE(Deciding, "the first job is granted all that it can use, and the record says of how much and why") {
  const JobId first = submit("first", sizes(1, 3, 3));
  CHECK(job(first).share == 3);
  CHECK(lease(first).slots == numbers({0, 1, 2}));
  CHECK(last().trigger.find("j1 arrives") != std::string::npos);
  CHECK(last().policy == "max-min");
  CHECK(last().slots == 4);
  CHECK(last().jobs == 1);
  CHECK(last().waiting == 0);
  REQUIRE(last().shares.size() == 1);
  CHECK(last().shares[0].before == 0);
  CHECK(last().shares[0].after == 3);
  CHECK(last().shares[0].why == "max-min: an equal share");
}

TEST_CASE_FIXTURE(Deciding,
                  "who has slots keeps its lowest numbers and gives the highest, which pass on once they are back") {
  const JobId first = submit("first", sizes(1, 4, 4));
  REQUIRE(lease(first).slots == numbers({0, 1, 2, 3}));
  const std::uint64_t version = lease(first).version;
  const JobId second = submit("second", sizes(1, 4, 4));
  CHECK(job(first).share == 2);
  CHECK(job(second).share == 2);
  CHECK(lease(first).slots == numbers({0, 1}));
  CHECK(lease(first).version == version + 1);
  CHECK(lease(second).slots.empty());
  CHECK(cluster().book().owned(first) == numbers({0, 1, 2, 3}));
  REQUIRE(last().shares.size() == 2);
  CHECK(last().shares[0].before == 4);
  CHECK(last().shares[0].after == 2);
  CHECK(last().shares[0].why.ends_with("; 2 slots for j2"));
  CHECK(last().shares[1].after == 2);
  follow();
  CHECK(cluster().book().owned(first) == numbers({0, 1}));
  CHECK(lease(second).slots == numbers({2, 3}));
}

TEST_CASE_FIXTURE(Deciding, "of equal jobs the earlier one gets the odd slot") {
  change_hosts({{"h", 5}});
  const JobId first = submit("first", sizes(1, 5, 5));
  const JobId second = submit("second", sizes(1, 5, 5));
  CHECK(job(first).share == 3);
  CHECK(job(second).share == 2);
}

TEST_CASE_FIXTURE(Deciding, "a job of a higher priority has all that it can use, the next ones what is left") {
  const JobId low = submit("low", sizes(1, 4, 4, 0));
  const JobId high = submit("high", sizes(1, 3, 3, 5));
  CHECK(job(high).share == 3);
  CHECK(job(low).share == 1);
  const JobId lowest = submit("lowest", sizes(1, 4, 4, -1));
  CHECK(job(high).share == 3);
  CHECK(job(low).share == 1);
  CHECK(job(lowest).share == 0);
  CHECK(job(lowest).why == "max-min: no slot is free for it now");
}

TEST_CASE_FIXTURE(Deciding, "a job runs with its least or not at all, and none that comes later begins before it") {
  const JobId first = submit("first", sizes(2, 2, 2));
  const JobId large = submit("large", sizes(3, 3, 3));
  CHECK(job(first).share == 2);
  CHECK(job(large).share == 0);
  const JobId small = submit("small", sizes(1, 1, 1));
  CHECK(job(large).share == 0);
  CHECK(job(small).share == 0);
  give(RunEnded{first, 0});
  CHECK(job(large).share == 3);
  CHECK(job(small).share == 1);
}

TEST_CASE_FIXTURE(Deciding, "users have no more than their limits, and what that leaves goes to others") {
  Limits two;
  two.slots = 2;
  const JobId limited = submit("limited", sizes(1, 4, 4), two, {1000, "ann", false});
  CHECK(job(limited).share == 2);
  const JobId again = submit("again", sizes(1, 4, 4), two, {1000, "ann", false});
  CHECK(job(limited).share + job(again).share == 2);
  const JobId other = submit("other", sizes(1, 4, 4));
  CHECK(job(limited).share + job(again).share == 2);
  CHECK(job(other).share == 2);
}

TEST_CASE_FIXTURE(Deciding, "a decision that changes no share is no record") {
  submit("first", sizes(1, 2, 2));
  const std::size_t before = decisions();
  submit("large", sizes(4, 4, 4));
  CHECK(decisions() == before);
}

// --- Who takes part

TEST_CASE_FIXTURE(Deciding, "a job that is paused gives all its slots, waits and takes no part") {
  JobSpec spec = sizes(1, 2, 2);
  spec.suspends = true;
  const JobId first = submit("first", spec);
  const JobId second = submit("second", sizes(1, 4, 4));
  REQUIRE(job(first).share == 2);
  order(first, Order::kPause);
  CHECK(job(first).share == 0);
  CHECK(lease(first).slots.empty());
  CHECK(job(second).share == 4);
  CHECK(last().jobs == 1);
  CHECK(last().waiting == 1);
}

TEST_CASE_FIXTURE(Deciding, "a run that is lost keeps its slots, and the others share the rest") {
  const JobId first = submit("first", sizes(1, 2, 2));
  const JobId second = submit("second", sizes(1, 4, 4));
  REQUIRE(job(second).share == 2);
  give(Disconnected{first});
  CHECK(cluster().book().owned(first) == numbers({0, 1}));
  const JobId third = submit("third", sizes(1, 4, 4));
  CHECK(job(first).share == 2);
  CHECK(job(second).share == 1);
  CHECK(job(third).share == 1);
  CHECK(last().slots == 2);
}

TEST_CASE_FIXTURE(Deciding, "slots of a host that is gone are no one's to be given, and their holder is told so") {
  change_hosts({{"h", 2}, {"i", 2}});
  const JobId first = submit("first", sizes(1, 4, 4));
  REQUIRE(lease(first).slots.size() == 4);
  change_hosts({{"h", 2}});
  CHECK(last().trigger == "hosts");
  CHECK(last().slots == 2);
  CHECK(job(first).share == 2);
  CHECK(lease(first).slots == numbers({0, 1}));
}

TEST_CASE_FIXTURE(Deciding, "a host that the cluster's own job has lost is given to nobody") {
  change_hosts({{"h", 2}, {"i", 2}});
  const JobId first = submit("first", sizes(1, 4, 4));
  report(first, 10, {}, {1});
  CHECK(job(first).share == 2);
  CHECK(lease(first).slots == numbers({0, 1}));
  const JobId second = submit("second", sizes(1, 4, 4));
  CHECK(job(first).share + job(second).share == 2);
}

// --- What a policy is told

struct Told : Story {
  Told() : Story(outside()) {}
  static Settings outside() {
    Settings settings = plain();
    settings.policy = "mine";
    settings.outside = true;
    return settings;
  }
};

// The state itself, with what a step asks of a policy from outside.
struct Asked {
  explicit Asked(const Settings& settings) : state(settings) { handle(state, HostsChanged{{{"h", 4}}}, 0); }
  JobId submit(const std::string& name, JobSpec spec) {
    spec.name = name;
    handle(state, Submit{1, {0, "root", true}, {}, spec, 0}, now_s++);
    return state.last_job;
  }
  const PolicyQuestion& question() {
    decide(state, now_s);
    REQUIRE(state.asked != nullptr);
    return *state.asked;
  }
  ClusterState state;
  double now_s = 1;
};

TEST_CASE("a policy is shown the jobs of the highest priority first, by arrival, with what they hold and have done") {
  Asked asked(Told::outside());
  asked.submit("late", sizes(1, 9, 9, 0));
  const JobId first = asked.submit("first", sizes(2, 3, 8, 1));
  asked.submit("second", sizes(1, 1, 1, 1));
  asked.state.jobs.at(first).share = 2;
  asked.state.jobs.at(first).samples = 500;
  const auto& view = asked.question().view;
  CHECK(view.priority == 1);
  CHECK(view.slots == 4);
  CHECK(view.now_s == asked.now_s);
  REQUIRE(view.jobs.size() == 2);
  CHECK(view.jobs[0].id < view.jobs[1].id);
  CHECK(view.jobs[0].requested == 3);
  CHECK(view.jobs[0].least == 2);
  CHECK(view.jobs[0].held == 2);
  CHECK(view.jobs[0].done == 500);
  CHECK(view.jobs[0].arrival_s == 2);
  CHECK(view.jobs[1].arrival_s == 3);
  REQUIRE(view.hosts.size() == 1);
  CHECK(view.hosts[0].slots == 4);
}

TEST_CASE("of a request larger than the cluster a policy is shown as much as there is") {
  Asked asked(Told::outside());
  asked.submit("large", sizes(1, 9, 9));
  CHECK(asked.question().view.jobs.at(0).requested == 4);
}

TEST_CASE("a job that was not measured is taken to be as fast as the median worker of the others") {
  Asked asked(Told::outside());
  for (const char* name : {"a", "b", "c"}) asked.submit(name, sizes(1, 4, 4));
  asked.submit("unknown", sizes(1, 4, 4));
  asked.state.jobs.at(1).rates[2] = {20, 3};   // 10 of each worker
  asked.state.jobs.at(2).rates[1] = {70, 3};   // 70
  asked.state.jobs.at(3).rates[4] = {120, 3};  // 30
  const auto& view = asked.question().view;
  REQUIRE(view.jobs.size() == 4);
  CHECK(view.jobs[3].curve->best(1) == doctest::Approx(30));
}

TEST_CASE("a policy is told once of a job that has ended since the last decision") {
  Asked asked(Told::outside());
  const JobId first = asked.submit("first", sizes(1, 3, 4));
  asked.submit("second", sizes(1, 1, 1));
  asked.state.gone.push_back({77, 0, 3, 40, 900});
  asked.state.gone.push_back({78, 5, 1, 1, 1});  // of another priority
  const auto& view = asked.question().view;
  REQUIRE(view.ended.size() == 1);
  CHECK(view.ended[0].id == 77);
  CHECK(view.ended[0].requested == 3);
  CHECK(view.ended[0].attained_slot_s == 40);
  CHECK(view.ended[0].work == 900);
  CHECK(view.jobs.size() == 2);
  CHECK(asked.state.jobs.contains(first));
  asked.state.asked.reset();
  CHECK(asked.question().view.ended.empty());
}

// --- When and why it is decided

TEST_CASE("what happens before a decision is its trigger, each once, and not without end") {
  ClusterState state(Story::plain());
  decide_soon(state, 10, "first");
  CHECK(state.decide_s == 10 + state.settings.decide_after_s);
  decide_soon(state, 11, "second");
  decide_soon(state, 12, "first");
  CHECK(state.trigger == "first, second");
  CHECK(state.decide_s == 10 + state.settings.decide_after_s);
  for (int more = 0; more < 100; ++more) decide_soon(state, 12, "event " + std::to_string(more));
  CHECK(state.trigger.size() < 120);
  CHECK(state.trigger.starts_with("first, second, event 0, event 1"));
  const std::string trigger = state.trigger;
  decide(state, 13);
  CHECK(state.because == trigger);
  CHECK(state.trigger.empty());
  CHECK(state.decide_s == kNever);
  CHECK(state.decisions == 1);
}

// --- What is left idle

// Two hosts with two slots each, and a job that stays on one host.
struct Pieces {
  Pieces() : state(Story::plain()) { handle(state, HostsChanged{{{"h", 2}, {"i", 2}}}, 0); }
  JobId submit(const std::string& name, JobSpec spec) {
    spec.name = name;
    handle(state, Submit{1, {0, "root", true}, {}, spec, 0}, 1);
    return state.last_job;
  }
  ClusterState state;
};

TEST_CASE("a decision that gives all of every share leaves nothing idle") {
  Pieces pieces;
  pieces.submit("any", sizes(1, 4, 4));
  decide(pieces.state, 2);
  CHECK(pieces.state.jobs.at(1).share == 4);
  CHECK_FALSE(pieces.state.left_idle);
}

TEST_CASE("a share that no host can hold whole is given smaller, and the decision has left slots idle") {
  Pieces pieces;
  for (const char* host : {"h", "i"}) {
    JobSpec there = sizes(1, 1, 1);
    there.hosts = {host};
    pieces.submit(std::string("on ") + host, there);
  }
  JobSpec one_host = sizes(1, 2, 2);
  one_host.one_host = true;
  const JobId third = pieces.submit("a host", one_host);
  decide(pieces.state, 2);
  CHECK(pieces.state.jobs.at(1).share == 1);
  CHECK(pieces.state.jobs.at(2).share == 1);
  CHECK(pieces.state.jobs.at(third).share == 1);
  CHECK(pieces.state.left_idle);
}

// --- What must hold

TEST_CASE("a connection that is another run's ends the process") {
  const auto ended = elastictrain::test::in_a_process([] {
    Story story;
    const JobId first = story.submit("first", sizes(1, 1, 1));
    const JobId second = story.submit("second", sizes(1, 1, 1));
    Join join;
    join.connection = first;
    join.owner = story.job(second).owner;
    join.job = id_text(second);
    join.directory = "/runs/second";
    join.spec = story.job(second).spec;
    story.give(join);
  });
  CHECK(ended.violated("a connection is that of one run"));
}

TEST_CASE("a lease whose version falls ends the process") {
  const auto ended = elastictrain::test::in_a_process([] {
    ClusterState state(Story::plain());
    handle(state, HostsChanged{{{"h", 4}}}, 0);
    handle(state, Submit{1, {0, "root", true}, {}, sizes(1, 4, 4), 0}, 1);
    state.jobs.at(1).leased_version = 5;
    decide(state, 2);
  });
  CHECK(ended.violated("versions of a lease only rise"));
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
