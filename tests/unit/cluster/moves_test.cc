// Workers that move between the hosts of a cluster, told as stories.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/cluster/told_cluster.h"

namespace elastictrain::cluster_core::test {
namespace {

using record::MoveOutcome;

const Slots kWide{{0, 1}, {1, 1}}, kFirst{{0, 0}, {0, 1}};

// Two hosts of two slots, jobs of fixed sizes. Runs do at once what their leases say, but for workers that are to move:
// these need `start_s`. Each worker makes 10 samples a second, times `on_one_host` where all are on one host.
class Story : public ToldCluster {
 public:
  explicit Story(bool knows_moves = true) : ToldCluster(settings()), knows_moves_(knows_moves) {
    give(HostsChanged{{{"h0", 2}, {"h1", 2}}});
  }

  JobId submit(std::uint32_t slots, bool one_host = false) {
    JobSpec spec;
    spec.name = "run" + std::to_string(cluster_.jobs().size());
    spec.min = spec.max = spec.start = slots;
    spec.samples_total = 1'000'000;
    spec.one_host = one_host;
    spec.suspends = true;
    const Owner owner{0, "root", true};
    give(Submit{1, owner, {}, spec, now_s_});
    const JobId id = cluster_.jobs().rbegin()->first;
    Join join;
    join.connection = id;
    join.owner = owner;
    join.job = id_text(id);
    join.directory = "/runs/" + id_text(id);
    join.spec = cluster_.jobs().at(id).spec;
    join.moves = knows_moves_;
    give(join);
    pass(2);
    return id;
  }

  // A job on both hosts, and one of one slot on the first.
  JobId wide() {
    const JobId a = submit(1), b = submit(1), c = submit(1), d = submit(1);
    end(b);
    end(d);
    const JobId wide = submit(2);
    REQUIRE(lease(wide).slots == kWide);
    pass(20);
    end(a);
    other = c;
    return wide;
  }

  void end(JobId id) {
    gone_.insert(id);
    give(RunEnded{id, 0});
    pass(2);
  }
  // It is to leave with a checkpoint, and does not for as long as `lingers` says so.
  void pause(JobId id) { give(Command{2, {0, "root", true}, {}, Order::kPause, id_text(id), 0}); }
  void lose_first_host() { give(HostsChanged{{{"h1", 2}}}); }

  void pass(double seconds) {
    for (double end_s = now_s_ + seconds; now_s_ < end_s; now_s_ += 1) {
      for (JobId id = 1; id <= cluster_.jobs().size(); ++id) {
        if (!gone_.contains(id)) report(id);
      }
      give(Tick{});
    }
  }

  double start_s = 3;
  double on_one_host = 1.2;
  JobId lingers = 0;
  JobId other = 0;
  const heuristics::leases::LeaseBook& book() const { return cluster_.book(); }
  std::vector<record::Moving> begun;
  std::vector<record::MoveEnded> ended;

 private:
  static Settings settings() {
    Settings settings;
    settings.policy = "fifo";
    settings.join_timeout_s = 60;
    return settings;
  }

  void report(JobId id) {
    const auto& lease = cluster_.book().lease(id);
    if (lease.moves && moves_since_s_.emplace(id, now_s_).second) old_[id] = cluster_.book().held(id);
    const bool waits = lease.moves && now_s_ < moves_since_s_[id] + start_s;
    if (!lease.moves) moves_since_s_.erase(id);
    Report report;
    report.connection = id;
    report.lease = lease.version;
    report.holds = waits || id == lingers ? cluster_.book().owned(id) : lease.slots;
    report.phase = report.holds.empty() ? "waiting" : "training";
    const Slots trains = waits ? old_[id] : lease.slots;
    report.workers = static_cast<std::uint32_t>(trains.size());
    report.step = static_cast<std::uint64_t>(now_s_);
    report.samples = static_cast<std::uint64_t>(10 * now_s_);
    const std::uint32_t hosts = hosts_of(trains);
    if (!trains.empty()) ++views_[id][{report.workers, hosts}];
    for (const auto& [size, count] : views_[id]) {
      const double rate = 10 * size.first * (size.second == 1 && size.first > 1 ? on_one_host : 1);
      report.rates.push_back({size.first, rate, count, false, size.second});
    }
    give(report);
  }

  void on_record(const Record& record) override {
    if (const auto* one = std::get_if<record::Moving>(&record)) begun.push_back(*one);
    if (const auto* one = std::get_if<record::MoveEnded>(&record)) ended.push_back(*one);
  }

  bool knows_moves_;
  std::set<JobId> gone_;
  std::map<JobId, double> moves_since_s_;
  std::map<JobId, Slots> old_;
  std::map<JobId, std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>> views_;
};

TEST_CASE("a job comes together, and stays so because it is faster there") {
  Story story;
  story.start_s = 10;
  const JobId wide = story.wide();
  for (int second = 0; second < 200 && story.begun.empty(); ++second) story.pass(1);
  REQUIRE(story.begun.size() == 1);
  CHECK(story.begun[0].from == kWide);
  CHECK(story.begun[0].to == kFirst);
  CHECK(story.begun[0].why == "1 host instead of 2");
  CHECK(story.lease(wide).moves);
  CHECK(story.lease(wide).slots == kFirst);
  CHECK(story.book().owned(wide) == Slots{{0, 0}, {0, 1}, {1, 1}});  // the old slot is its own until it is left
  CHECK(story.job(wide).why.find("moves h1:1 to h0:0: 1 host instead of 2") != std::string::npos);
  const JobId next = story.submit(1);  // nor is it meant for anybody else
  CHECK(story.lease(next).slots.empty());
  story.pass(12);
  CHECK(story.lease(next).slots == Slots{{1, 1}});
  story.pass(100);
  REQUIRE(story.ended.size() == 2);
  CHECK(story.ended[0].outcome == MoveOutcome::kDone);
  CHECK(story.ended[1].outcome == MoveOutcome::kKept);
  CHECK(story.ended[1].why == "24 samples/s on 1 host, 20 samples/s on 2 hosts");
  CHECK(story.begun.size() == 1);
}

TEST_CASE("a job that is slower there moves back, once") {
  Story story;
  story.on_one_host = 0.9;
  const JobId wide = story.wide();
  story.pass(400);
  REQUIRE(story.begun.size() == 2);
  CHECK(story.begun[1].to == kWide);
  CHECK(story.begun[1].why == "undone, 18 samples/s on 1 host, 20 samples/s on 2 hosts");
  REQUIRE(story.ended.size() == 3);
  CHECK(story.ended[1].outcome == MoveOutcome::kUndone);
  CHECK(story.ended[2].outcome == MoveOutcome::kDone);
  CHECK(story.lease(wide).slots == kWide);
}

TEST_CASE("where new workers do not come, or their host is lost, the job stays where it was") {
  for (const bool is_lost : {false, true}) {
    Story story;
    story.start_s = 1e6;
    const JobId wide = story.wide();
    for (int second = 0; second < 200 && story.begun.empty(); ++second) story.pass(1);
    REQUIRE(story.begun.size() == 1);
    if (is_lost) {
      story.lose_first_host();
      story.pass(3);
      REQUIRE(story.ended.size() == 1);
      CHECK(story.ended[0].outcome == MoveOutcome::kSuperseded);  // it has lost its other slot, too
      continue;
    }
    story.pass(70);
    REQUIRE(story.ended.size() == 1);
    CHECK(story.ended[0].outcome == MoveOutcome::kTakenBack);
    CHECK(story.lease(wide).slots == kWide);
    CHECK_FALSE(story.lease(wide).moves);
    story.pass(300);
    CHECK(story.begun.size() == 1);
    CHECK(story.job(wide).phase == Phase::kJoined);
  }
}

TEST_CASE("a job of one slot makes room for one that asks for a whole host") {
  Story story;
  const JobId a = story.submit(1), b = story.submit(1), c = story.submit(1), d = story.submit(1);
  story.end(b);
  story.end(d);
  story.pass(200);  // for the rest after a change
  const JobId pair = story.submit(2, true);
  REQUIRE(story.begun.size() == 1);
  CHECK(story.begun[0].why == "makes room for " + id_text(pair));
  CHECK(story.begun[0].job == c);
  CHECK(story.lease(c).slots == Slots{{0, 1}});
  story.pass(6);
  CHECK(story.lease(pair).slots == Slots{{1, 0}, {1, 1}});
  CHECK(story.lease(a).slots == Slots{{0, 0}});
  CHECK(story.begun.size() == 1);
}

TEST_CASE("workers do not move to a slot that has not been given back") {
  Story story;
  const JobId a = story.submit(1), b = story.submit(1), c = story.submit(1), d = story.submit(1);
  story.end(b);
  story.end(d);
  const JobId wide = story.submit(2);
  REQUIRE(story.lease(wide).slots == kWide);
  story.pass(20);
  story.lingers = a;
  story.pause(a);
  story.pass(40);
  CHECK(story.book().owned(a) == Slots{{0, 0}});
  CHECK(story.begun.empty());
  CHECK(story.lease(wide).slots == kWide);
  story.lingers = 0;
  story.pass(40);
  REQUIRE(story.begun.size() == 1);
  CHECK(story.lease(wide).slots == kFirst);
  CHECK(story.lease(c).slots == Slots{{1, 0}});
}

TEST_CASE("a run that does not know such leases is not moved") {
  Story story(false);
  story.wide();
  story.pass(400);
  CHECK(story.begun.empty());
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
