// A cluster whose policy is a program or library of the user: it is asked, others go on meanwhile, and what it answers
// is carried out within everybody's bounds.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/sharing/grants.h"
#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::cluster_core::test {
namespace {

namespace sharing = heuristics::sharing;

using Said = std::vector<std::uint32_t>;

// Runs do at once what their leases say. The policy answers when the test says so.
class Asking {
 public:
  explicit Asking(std::vector<HostLine> hosts = {{"h", 4}}) : cluster_(settings()) {
    take(cluster_.begin(now_s_));
    give(HostsChanged{std::move(hosts)});
  }

  JobId submit(const std::string& name, std::uint32_t max = 4, std::int32_t priority = 0, Limits limits = {}) {
    JobSpec spec;
    spec.name = name;
    spec.max = spec.start = max;
    spec.priority = priority;
    spec.suspends = true;
    limits.priority = 10;
    take(cluster_.step(Submit{1, {0, "root", true}, limits, spec, now_s_}, now_s_));
    const JobId id = cluster_.jobs().rbegin()->first;
    Join join;
    join.connection = id;
    join.owner = {0, "root", true};
    join.limits = limits;
    join.job = id_text(id);
    join.directory = "/runs/" + name;
    join.spec = spec;
    give(join);
    follow();
    return id;
  }

  // As many slots for each job of the question, in its order.
  void answer(const Said& slots) {
    sharing::Answer answer;
    for (std::size_t place = 0; place < slots.size(); ++place) {
      answer.jobs.push_back({asked().view.jobs.at(place).id, slots[place], {}, "share " + std::to_string(place)});
    }
    reply({question_->question, sharing::decision_of(answer, asked().view), false, "{}", "{\"jobs\":[]}"});
  }
  void fail(const std::string& problem, bool is_last = false) {
    PolicyAnswered event;
    event.question = question_ ? question_->question : 0;
    event.decision.problem = problem;
    event.is_last = is_last;
    reply(event);
  }
  void reply(const PolicyAnswered& event) {
    if (question_ && event.question == question_->question) question_.reset();
    give(event);
    follow();
  }
  void order(JobId id, Order what) {
    give(Command{1, {0, "root", true}, {}, what, id_text(id), 0});
    follow();
  }
  void give(const Event& event) {
    take(cluster_.step(event, now_s_));
    now_s_ += 0.1;
    take(cluster_.step(Tick{}, now_s_));
    CHECK(cluster_.broken_rules() == std::vector<std::string>{});
  }
  void wait(double seconds) { now_s_ += seconds; }

  bool is_asked() const { return question_.has_value(); }
  std::uint64_t number() const { return question_->question; }
  const PolicyQuestion& asked() const { return *question_->asked; }
  std::size_t slots(JobId id) const { return cluster_.book().in_use(id); }
  const Job& job(JobId id) const { return cluster_.jobs().at(id); }
  Cluster& cluster() { return cluster_; }
  double now_s() const { return now_s_; }
  template <class One>
  std::size_t count() const {
    return static_cast<std::size_t>(std::count_if(
        journal_.begin(), journal_.end(), [](const Record& record) { return std::holds_alternative<One>(record); }));
  }
  const std::vector<Record>& journal() const { return journal_; }
  std::vector<std::string> told;

 private:
  static Settings settings() {
    Settings settings;
    settings.policy = "own.py";
    settings.outside = true;
    return settings;
  }

  void take(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* written = std::get_if<Write>(&action)) journal_.push_back(written->record);
      if (const auto* tell = std::get_if<Tell>(&action)) told.push_back(tell->text);
      const auto* ask = std::get_if<AskPolicy>(&action);
      if (ask == nullptr) continue;
      CHECK_FALSE(question_.has_value());  // one at a time
      question_ = *ask;
    }
  }

  void follow() {
    for (const auto& [id, known] : std::map(cluster_.jobs())) {
      const auto& lease = cluster_.book().lease(id);
      if (known.connection == 0 || cluster_.book().seen(id) == lease.version) continue;
      Report report;
      report.connection = id;
      report.lease = lease.version;
      report.holds = lease.slots;
      report.phase = lease.slots.empty() ? "waiting" : "training";
      report.workers = static_cast<std::uint32_t>(lease.slots.size());
      give(report);
    }
  }

  Cluster cluster_;
  std::optional<AskPolicy> question_;
  std::vector<Record> journal_;
  double now_s_ = 1;
};

TEST_CASE("two jobs share as a policy from outside says, and the journal has question and answer before the decision") {
  Asking story({{"a", 2}, {"b", 2}});
  const JobId one = story.submit("one");
  REQUIRE(story.is_asked());
  CHECK(story.asked().view.slots == 4);
  REQUIRE(story.asked().view.hosts.size() == 2);
  CHECK(story.asked().view.hosts[0].name == "a");
  CHECK(story.asked().view.hosts[0].slots == 2);
  REQUIRE(story.asked().view.jobs.size() == 1);
  CHECK(story.asked().view.jobs[0].curve->cap() == 4);
  story.answer({4});
  CHECK(story.slots(one) == 4);
  const JobId two = story.submit("two");
  REQUIRE(story.asked().view.jobs.size() == 2);
  CHECK(story.asked().view.jobs[0].held == 4);
  story.answer({3, 1});
  CHECK(story.slots(one) == 3);
  CHECK(story.slots(two) == 1);
  CHECK(story.job(two).why == "own.py: share 1");
  std::vector<std::string> order;
  for (const Record& record : story.journal()) {
    if (std::holds_alternative<record::PolicyAsked>(record)) order.emplace_back("asked");
    if (std::holds_alternative<record::Decided>(record)) order.emplace_back("decided");
    if (std::holds_alternative<record::Leased>(record)) order.emplace_back("leased");
  }
  REQUIRE(order.size() >= 3);
  CHECK(std::vector(order.begin(), order.begin() + 3) == std::vector<std::string>{"asked", "decided", "leased"});
}

TEST_CASE("while the policy thinks jobs keep what they have, nothing is due, and what happens is decided after that") {
  Asking story;
  const JobId one = story.submit("one");
  story.answer({4});
  const JobId two = story.submit("two");
  const std::uint64_t question = story.number();
  const JobId three = story.submit("three");
  story.wait(1000);
  story.give(Tick{});
  CHECK(story.cluster().wake_s(story.now_s()) == kNever);
  CHECK(story.number() == question);
  CHECK(story.slots(one) == 4);
  CHECK(story.slots(two) + story.slots(three) == 0);
  story.answer({2, 2});
  CHECK(story.slots(one) == 2);
  CHECK(story.slots(three) == 0);
  REQUIRE(story.is_asked());
  CHECK(story.number() == question + 1);
  CHECK(story.asked().view.jobs.size() == 3);
  story.answer({2, 1, 1});
  CHECK(story.slots(three) == 1);
}

TEST_CASE("a job that ends while the policy thinks is told with the next question, once") {
  Asking story;
  const JobId one = story.submit("one"), two = story.submit("two");
  story.answer({4});
  CHECK(story.asked().view.ended.empty());
  story.order(one, Order::kCancel);
  story.give(RunEnded{one, 0});
  story.answer({2, 2});
  REQUIRE(story.is_asked());
  CHECK(story.slots(one) == 0);
  REQUIRE(story.asked().view.ended.size() == 1);
  CHECK(story.asked().view.jobs.size() == 1);
  story.answer({4});
  CHECK(story.slots(two) == 4);
  story.submit("three");
  CHECK(story.asked().view.ended.empty());
}

TEST_CASE("a bad answer counts for one decision, which the stand-in makes, and is said once") {
  Asking story;
  const JobId one = story.submit("one");
  story.fail("the library returned no decision");
  CHECK(story.slots(one) == 4);
  CHECK(story.job(one).why == "max-min: an equal share");
  CHECK(story.cluster().policy_problem() == "the library returned no decision");
  const JobId two = story.submit("two");
  REQUIRE(story.is_asked());
  story.fail("the library returned no decision");
  CHECK(story.slots(two) == 2);
  CHECK(story.told ==
        std::vector<std::string>{
            "the policy own.py does not work: the library returned no decision; max-min decides meanwhile"});
  story.submit("three");
  story.answer({4, 0, 0});
  CHECK(story.slots(one) == 4);
  CHECK(story.slots(two) == 0);
  CHECK(story.cluster().policy_problem().empty());
}

TEST_CASE("a program that has failed is not asked again, whether it was thinking or not") {
  Asking story;
  const JobId one = story.submit("one");
  story.fail("the program gave no decision within 1 s", true);
  CHECK(story.slots(one) == 4);
  const JobId two = story.submit("two");
  CHECK_FALSE(story.is_asked());
  CHECK(story.slots(one) == 2);
  CHECK(story.slots(two) == 2);
  CHECK(story.cluster().policy_problem() == "the program gave no decision within 1 s");

  Asking other;
  const JobId first = other.submit("first");
  other.answer({1});
  other.fail("the program ended with exit status 0", true);
  CHECK(other.slots(first) == 4);
  CHECK_FALSE(other.is_asked());
  CHECK(other.told.size() == 1);
}

TEST_CASE("a policy is asked again when it says, also if it has thought for longer than that") {
  Asking story;
  const JobId one = story.submit("one");
  PolicyAnswered answered;
  answered.question = story.number();
  const sharing::View& view = story.asked().view;
  answered.decision = sharing::decision_of({{{view.jobs[0].id, 0, {}, {}}}, story.now_s() + 1}, view);
  story.wait(5);
  story.reply(answered);
  CHECK(story.slots(one) == 0);
  CHECK(story.job(one).why == "own.py: it is given no slots");
  story.wait(1);
  story.give(Tick{});
  REQUIRE(story.is_asked());
  story.answer({4});
  CHECK(story.slots(one) == 4);
}

TEST_CASE("an answer to another question changes nothing") {
  Asking story;
  const JobId one = story.submit("one");
  PolicyAnswered old;
  old.question = 7;
  old.decision.problem = "late";
  story.reply(old);
  CHECK(story.count<record::PolicyAsked>() == 0);
  CHECK(story.slots(one) == 0);
  CHECK(story.is_asked());
}

TEST_CASE("jobs of the highest priority are asked about first, the others with what is left") {
  Asking story;
  const JobId low = story.submit("low"), high = story.submit("high", 4, 5);
  story.answer({4});  // before the other one had come
  REQUIRE(story.is_asked());
  CHECK(story.asked().view.priority == 5);
  CHECK(story.asked().view.slots == 4);
  CHECK(story.asked().view.jobs.size() == 1);
  story.answer({3});
  REQUIRE(story.is_asked());
  CHECK(story.asked().view.priority == 0);
  CHECK(story.asked().view.slots == 1);
  CHECK(story.slots(low) == 0);
  story.answer({1});
  CHECK(story.slots(high) == 3);
  CHECK(story.slots(low) == 1);
}

TEST_CASE("no answer lifts a limit, and one about slots that have gone is asked for again") {
  Limits two;
  two.slots = 2;
  Asking story({{"a", 2}, {"b", 2}});
  const JobId one = story.submit("one", 4, 0, two);
  story.answer({4});
  CHECK(story.slots(one) == 2);
  const JobId other = story.submit("other");
  story.give(HostsChanged{{{"a", 2}}});
  story.answer({2, 2});
  CHECK(story.slots(one) == 2);
  REQUIRE(story.is_asked());
  CHECK(story.asked().view.slots == 2);
  story.answer({1, 1});
  CHECK(story.slots(one) == 1);
  CHECK(story.slots(other) == 1);
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
