// Two jobs in the slots of one on a cluster, told as stories.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/cluster/told_cluster.h"

namespace elastictrain::cluster_core::test {
namespace {

using heuristics::leases::Slot;

// Runs do at once what their leases say; each makes 10 samples a second alone and 8 beside another one.
class Story : public ToldCluster {
 public:
  explicit Story(std::uint32_t slots = 1) : Story(std::vector<HostLine>{{"h", slots}}) {}
  explicit Story(const std::vector<HostLine>& hosts) : ToldCluster(settings()) { give(HostsChanged{hosts}); }

  JobId submit(const std::string& name, JobSpec spec = {}, Limits limits = {}) {
    spec.name = name;
    spec.stands = true;
    spec.samples_total = 1'000'000;
    const Owner owner{0, "root", true};
    give(Submit{1, owner, limits, spec, now_s_});
    const JobId id = cluster_.jobs().rbegin()->first;
    join(id);
    return id;
  }

  void join(JobId id) {
    Join join;
    join.connection = ++last_connection_;
    join.owner = {0, "root", true};
    join.limits = cluster_.jobs().at(id).limits;
    join.job = id_text(id);
    join.directory = "/runs/" + id_text(id);
    join.spec = cluster_.jobs().at(id).spec;
    join.lease = cluster_.book().lease(id).version;
    join.holds = cluster_.book().held(id);
    connections_[id] = join.connection;
    give(join);
  }

  void lose(JobId id) {
    give(Disconnected{connections_.at(id)});
    connections_.erase(id);
  }

  // All runs follow their leases and report once a second for so long.
  void pass(double seconds) {
    for (double end_s = now_s_ + seconds; now_s_ < end_s; now_s_ += 1) {
      for (const auto& [id, connection] : std::map(connections_)) report(id, connection);
      give(Tick{});
    }
  }

  double packed_rate = 8;
  std::map<JobId, std::uint32_t> lost_hosts;  // one that it cannot reach
  bool works(JobId id) const { return cluster_.book().in_use(id) > 0; }
  // Why jobs have the shares that they have, in the journal.
  std::size_t decided(const std::string& part) const {
    std::size_t count = 0;
    for (const record::Share& share : shares_) count += share.why.find(part) != std::string::npos ? 1 : 0;
    return count;
  }

 private:
  static Settings settings() {
    Settings settings;
    settings.policy = "gandiva";
    settings.slice_s = 20;
    settings.packing = true;
    settings.suspended_per_slot = 2;
    settings.orphan_grace_s = 1000;
    return settings;
  }

  void report(JobId id, Connection connection) {
    const auto& lease = cluster_.book().lease(id);
    Report report;
    report.connection = connection;
    report.lease = lease.version;
    report.holds = lease.hold && lease.slots.empty() ? cluster_.book().held(id) : lease.slots;
    report.stands = lease.hold;
    report.phase = "training";
    report.workers = static_cast<std::uint32_t>(report.holds.size());
    if (lost_hosts.contains(id)) report.lost_hosts = {lost_hosts.at(id)};
    const bool packed = lease.beside != 0;
    if (beside_[id] != lease.beside) views_[id] = 0;
    beside_[id] = lease.beside;
    if (!lease.hold && report.workers > 0) {
      const double rate = packed ? packed_rate : 10.0;
      report.rates.push_back({report.workers, rate * report.workers, packed ? ++views_[id] : 5, packed});
    }
    give(report);
  }

  void on_record(const Record& record) override {
    const auto* decided = std::get_if<record::Decided>(&record);
    if (decided != nullptr) shares_.insert(shares_.end(), decided->shares.begin(), decided->shares.end());
  }

  Connection last_connection_ = 0;
  std::map<JobId, Connection> connections_;
  std::map<JobId, std::uint32_t> views_;
  std::map<JobId, JobId> beside_;
  std::vector<record::Share> shares_;
};

TEST_CASE("two jobs that do 1.6 of one together share a slot, and the journal says so") {
  Story story;
  const JobId a = story.submit("a"), b = story.submit("b");
  story.pass(80);
  CHECK(story.lease(a).slots == Slots{Slot{0, 0}});
  CHECK(story.lease(b).slots == Slots{Slot{0, 0}});
  CHECK(story.lease(a).beside == b);
  CHECK(story.lease(b).beside == a);
  CHECK(story.decided("gandiva: packing_kept, shares its slots with j") == 1);
  CHECK(story.job(a).why.find("together 1.6 of one alone at look ") != std::string::npos);
  CHECK(story.job(a).rates.at(1).samples_per_s == 10);
  CHECK(story.job(a).packed.rate.samples_per_s == 8);
}

TEST_CASE("two jobs that do 0.6 of one together take turns again") {
  Story story;
  story.packed_rate = 3;
  const JobId a = story.submit("a"), b = story.submit("b");
  story.pass(100);
  CHECK(story.decided("packing_tried") == 1);
  CHECK(story.decided("gandiva: packing_undone, together 0.6 of one alone at look 2") == 1);
  CHECK(story.works(a) != story.works(b));
  CHECK(story.lease(a).beside == 0);
  CHECK(story.job(a).rates.at(1).samples_per_s == 10);
}

TEST_CASE("the host of a pair keeps its slots when the pair is undone, also if its guest is the older one") {
  Story story(2);
  story.packed_rate = 3;
  JobSpec two;
  two.min = two.max = two.start = 2;
  const JobId a = story.submit("a", two), b = story.submit("b", two);
  for (int second = 0; second < 200 && story.decided("packing_tried") == 0; ++second) story.pass(1);
  const JobId guest = story.job(a).beside != 0 ? a : b, host = guest == a ? b : a;
  const std::uint64_t before = story.lease(host).version;
  for (int second = 0; second < 30 && story.decided("packing_undone") == 0; ++second) story.pass(1);
  REQUIRE(story.decided("packing_undone") == 1);
  CHECK(story.lease(host).slots.size() == 2);
  CHECK(story.lease(host).version <= before + 2);  // told of its guest, and of its end
  CHECK((story.works(host) || story.lease(host).hold));
}

TEST_CASE("a guest whose supervisor is lost moves nobody, and shares the slot again when it is back") {
  Story story;
  const JobId a = story.submit("a"), b = story.submit("b");
  story.pass(80);
  const JobId guest = story.job(a).beside != 0 ? a : b, host = guest == a ? b : a;
  story.lose(guest);
  story.pass(5);
  CHECK(story.works(host));
  CHECK(story.lease(host).slots == Slots{Slot{0, 0}});
  story.join(guest);
  story.pass(40);
  CHECK(story.works(host));
  CHECK(story.works(guest));
  CHECK(story.lease(guest).beside == host);
}

TEST_CASE("a guest is not assigned where its host has fewer slots than it was granted") {
  Story story({{"h0", 1}, {"h1", 1}});
  JobSpec two;
  two.max = two.start = 2;
  const JobId a = story.submit("a", two), b = story.submit("b", two);
  for (int second = 0; second < 200 && story.decided("packing_kept") == 0; ++second) story.pass(1);
  const JobId guest = story.job(a).beside != 0 ? a : b, host = guest == a ? b : a;
  REQUIRE(story.lease(guest).slots.size() == 2);
  story.lost_hosts[host] = 1;
  story.pass(3);
  CHECK(story.lease(host).slots == Slots{Slot{0, 0}});
  CHECK(story.lease(host).beside == 0);
  CHECK_FALSE(story.works(guest));
}

TEST_CASE("jobs with a deadline, wishes for hosts or limits share no slots") {
  JobSpec in_time, at_home, whole;
  in_time.deadline_s = 1e6;
  at_home.hosts = {"h"};
  whole.one_host = true;
  for (const JobSpec& spec : {in_time, at_home, whole}) {
    Story story;
    story.submit("a", spec);
    story.submit("b");
    story.pass(80);
    CHECK(story.decided("packing") == 0);
  }
  Limits limits;
  limits.slots = 1;
  Story story;
  story.submit("a", {}, limits);
  story.submit("b");
  story.pass(80);
  CHECK(story.decided("packing") == 0);
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
