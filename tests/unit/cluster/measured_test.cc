// What a cluster does when a job says how fast it is at a size.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "story.h"

namespace elastictrain::cluster_core::test {
namespace {

Settings afs() {
  Settings settings = Story::plain();
  settings.policy = "afs-l";
  return settings;
}

// Seven slots, and two jobs of which each slot of any number is worth as much: four and three.
struct Equal : Story {
  JobId first = 0, second = 0;
  Equal() : Story(afs()) {
    change_hosts({{"h", 7}});
    JobSpec spec;
    spec.min = 1;
    spec.start = spec.max = 7;
    spec.samples_total = 1'000'000;
    first = submit("first", spec);
    second = submit("second", spec);
    for (const JobId id : {first, second}) report(id, 1000, {{2, 200, 3}});
    if (job(first).share < job(second).share) std::swap(first, second);
    REQUIRE(job(first).share == 4);
    REQUIRE(job(second).share == 3);
  }
};

TEST_CASE_FIXTURE(Equal, "a size that is as fast as was expected moves no slot, however the noise falls") {
  for (const double samples_per_s : {392.0, 408.0}) {
    report(first, 2000, {{2, 200, 3}, {4, samples_per_s, 3}});
    CHECK(job(first).share == 4);
  }
  report(second, 2000, {{2, 200, 3}, {3, 306, 3}});
  CHECK(job(first).share == 4);
}

TEST_CASE_FIXTURE(Equal, "a size that does not pay is given up at once") {
  report(first, 2000, {{2, 200, 3}, {4, 300, 3}});
  CHECK(job(first).share < 4);
  CHECK(job(second).share > 3);
}

struct OneSlot : Story {
  explicit OneSlot(const std::string& policy) : Story(under(policy)) { change_hosts({{"h", 1}}); }
  static Settings under(const std::string& policy) {
    Settings settings = plain();
    settings.policy = policy;
    return settings;
  }
  static JobSpec suspended_by_leaving() {
    JobSpec spec;
    spec.arguments = {"--"};
    spec.suspends = true;
    return spec;
  }
};

TEST_CASE("before a job was measured, a number of samples says nothing of how long it takes") {
  OneSlot story("worth");
  JobSpec spec = OneSlot::suspended_by_leaving();
  spec.samples_total = 100'000;  // 100 s, as will turn out
  const JobId first = story.submit("first", spec);
  story.wait(2);
  story.report(first, 10, {});
  story.wait(20);
  spec.samples_total.reset();
  const JobId second = story.submit("second", spec);
  CHECK(story.job(first).share == 1);
  CHECK(story.job(second).share == 0);
}

TEST_CASE("a job whose workers start is not suspended for the next arrival, but for one that is shorter by far") {
  OneSlot story("srtf");
  JobSpec spec = OneSlot::suspended_by_leaving();
  spec.samples_total = 100;  // a sample a second, as nothing is measured
  const JobId first = story.submit("first", spec);
  REQUIRE(story.job(first).share == 1);
  story.wait(10);
  spec.samples_total = 85;
  const JobId second = story.submit("second", spec);
  CHECK(story.job(first).share == 1);
  CHECK(story.job(first).why.find("srtf: it has just been given its slots, and keeps them for ") == 0);
  CHECK(story.job(second).why == "srtf: its slots are kept by jobs that have just been given them");
  spec.samples_total = 20;
  const JobId third = story.submit("third", spec);
  CHECK(story.job(first).share == 0);
  CHECK(story.job(third).share == 1);
  CHECK(story.job(third).why == "srtf: shortest remaining time (20 s)");
}

// Nine slots, and three jobs with three each.
struct Three : Story {
  std::vector<JobId> ids;
  Three() {
    change_hosts({{"h", 9}});
    JobSpec spec;
    spec.min = 1;
    spec.start = spec.max = 9;
    for (const char* name : {"a", "b", "c"}) ids.push_back(submit(name, spec));
    for (const JobId id : ids) report(id, 1000, {{3, 300, 3}});
    for (const JobId id : ids) REQUIRE(job(id).share == 3);
  }
  void want(JobId id, std::uint32_t slots) {
    Report report;
    report.connection = id;
    report.lease = cluster().book().lease(id).version;
    report.holds = cluster().book().lease(id).slots;
    report.phase = "training";
    report.workers = 3;
    report.wants = slots;
    give(report);
  }
};

TEST_CASE_FIXTURE(Three, "a job that loses slots names the job that gets them, where it is one") {
  want(ids[1], 2);
  REQUIRE(job(ids[1]).share == 2);
  CHECK(job(ids[1]).why.ends_with("; 1 slot for " + id_text(ids[0])));
}

TEST_CASE_FIXTURE(Three, "it names none where an older and a younger one get them") {
  want(ids[1], 1);
  REQUIRE(job(ids[0]).share == 4);
  REQUIRE(job(ids[2]).share == 4);
  CHECK(job(ids[1]).why.find(" for j") == std::string::npos);
}

// One slot, under the shortest remaining time first; neither job says how long it is.
struct Lengths : Story {
  explicit Lengths(bool estimated) : Story(by(estimated)) {
    change_hosts({{"h", 1}});
    for (JobId* id : {&first, &second}) {
      JobSpec spec;
      spec.arguments = {"--"};
      spec.suspends = true;
      *id = submit(id == &first ? "first" : "second", spec);
    }
  }
  static Settings by(bool estimated) {
    Settings settings = plain();
    settings.policy = "srtf";
    settings.estimated_lengths = estimated;
    return settings;
  }
  // It has trained 1,000 samples at 100 a second, and its loss says how many it needs.
  void expect(JobId id, std::uint64_t samples) {
    Report report;
    report.connection = id;
    report.lease = cluster().book().lease(id).version;
    report.holds = cluster().book().lease(id).slots;
    report.phase = "training";
    report.workers = 1;
    report.samples = 1000;
    report.expected_samples = samples;
    report.expected_error = samples / 10;
    report.rates = {{1, 100, 3}};
    give(report);
  }
  std::size_t decisions() const {
    return static_cast<std::size_t>(std::count_if(journal().begin(), journal().end(), [](const Record& record) {
      const auto* decided = std::get_if<record::Decided>(&record);
      return decided != nullptr && decided->trigger.find("estimated anew") != std::string::npos;
    }));
  }
  JobId first = 0, second = 0;
};

TEST_CASE("with estimated lengths a job that does not say its length has that of its loss") {
  Lengths story(true);
  story.expect(story.first, 50'000);
  CHECK(story.cluster().length_of(story.job(story.first)) == 50'000);
  CHECK(story.cluster().left_s(story.job(story.first)) == doctest::Approx(490));
  JobSpec spec;
  spec.arguments = {"--"};
  spec.samples_total = 2'000;
  const JobId brief = story.submit("brief", spec);
  CHECK(story.job(brief).share == 1);  // shorter than what the others have left
  CHECK(story.job(story.first).share == 0);
}

TEST_CASE("without, an estimate changes nothing; a length that is said counts before one that is estimated") {
  Lengths story(false);
  story.expect(story.first, 50'000);
  CHECK_FALSE(story.cluster().length_of(story.job(story.first)).has_value());
  CHECK_FALSE(story.cluster().left_s(story.job(story.first)).has_value());
  CHECK(story.decisions() == 0);
  Lengths other(true);
  Report report;
  report.connection = other.first;
  report.lease = other.cluster().book().lease(other.first).version;
  report.holds = other.cluster().book().lease(other.first).slots;
  report.phase = "training";
  report.workers = 1;
  report.samples = 1000;
  report.samples_total = 3000;
  report.expected_samples = 50'000;
  other.give(report);
  CHECK(other.cluster().length_of(other.job(other.first)) == 3000);
}

TEST_CASE("an estimate that is another one is decided on, not each that differs a little") {
  Lengths story(true);
  story.expect(story.first, 50'000);
  const std::size_t first = story.decisions();
  for (const std::uint64_t samples : {51'000, 49'500, 52'000}) story.expect(story.first, samples);
  CHECK(story.decisions() == first);
}

// Four slots under Pollux' policy, and two jobs of the same speed at each size.
struct Learning : Story {
  explicit Learning(const std::string& policy = "pollux") : Story(by(policy)) {
    JobSpec spec;
    spec.arguments = {"--"};
    spec.max = 4;
    first = submit("first", spec);
    second = submit("second", spec);
    change_hosts({{"h", 4}});
    wait(60'000);  // a change of a young job costs much
  }
  static Settings by(const std::string& policy) {
    Settings settings = plain();
    settings.policy = policy;
    return settings;
  }
  void say(JobId id, std::vector<heuristics::sharing::Curve::Point> goodput) {
    Report report;
    report.connection = id;
    report.lease = cluster().book().lease(id).version;
    report.holds = cluster().book().lease(id).slots;
    report.phase = "training";
    report.workers = static_cast<std::uint32_t>(report.holds.size());
    report.samples = 1000;
    for (const std::uint32_t workers : {1U, 2U, 3U, 4U}) report.rates.push_back({workers, 100.0 * workers, 3});
    report.goodput = std::move(goodput);
    give(report);
    change_hosts({{"h", 4}});  // runs do what their leases say
  }
  JobId first = 0, second = 0;
};

const std::vector<heuristics::sharing::Curve::Point> kLearnsMore{{1, 100}, {2, 195}, {4, 380}};
const std::vector<heuristics::sharing::Curve::Point> kLearnsNoMore{{1, 100}, {2, 101}, {4, 102}};

TEST_CASE("under pollux the slots go where jobs learn from them, not where they are only faster") {
  Learning story;
  REQUIRE(story.job(story.first).share == 3);
  story.say(story.second, kLearnsMore);
  story.say(story.first, kLearnsNoMore);
  CHECK(story.job(story.first).share == 1);
  CHECK(story.job(story.second).share == 3);
  Learning by_speed("max-min");
  by_speed.say(by_speed.second, kLearnsMore);
  by_speed.say(by_speed.first, kLearnsNoMore);
  CHECK(by_speed.job(by_speed.first).share == 2);
}

TEST_CASE("a job that does not say its goodput is taken to learn at its speed; the unit of goodput does not matter") {
  Learning story;
  story.say(story.second, {});
  story.say(story.first, {{1, 1e-3}, {2, 1.01e-3}, {4, 1.02e-3}});
  CHECK(story.job(story.first).share == 1);
  CHECK(story.job(story.second).share == 3);
}

// One slot, two jobs; the first says that it trains on 1,000 samples, 50 a second.
struct Ending : OneSlot {
  JobId first = 0;
  Ending() : OneSlot("fifo") {
    JobSpec spec = suspended_by_leaving();
    spec.samples_total = 1000;
    first = submit("first", spec);
  }
  std::uint64_t samples_at_end(std::uint64_t reported) {
    report(first, reported, {{1, 50, 3}});
    give(RunEnded{first, 0});
    return job(first).samples;
  }
};

TEST_CASE_FIXTURE(Ending, "a job that has ended has done all its samples, although no report says the last ones") {
  CHECK(samples_at_end(940) == 1000);
}

TEST_CASE_FIXTURE(Ending, "a job that has stopped early has done what it said") {
  CHECK(samples_at_end(600) == 600);
}

// It has trained on 500 samples, and is suspended and taken up in the same process.
struct TakenUp : OneSlot {
  JobId first = 0;
  TakenUp() : OneSlot("srtf") {
    JobSpec spec = suspended_by_leaving();
    spec.samples_total = 1000;
    first = submit("first", spec);
    report(first, 500, {{1, 50, 8}});
    order(first, Order::kPause);
    order(first, Order::kResume);
  }
};

TEST_CASE_FIXTURE(TakenUp, "a run that is taken up and has not trained yet is as far as it was") {
  report(first, 0, {});
  CHECK(job(first).samples == 500);
  report(first, 490, {});
  CHECK(job(first).samples == 490);
}

TEST_CASE_FIXTURE(TakenUp, "what was measured of a job counts until its run has measured it anew") {
  report(first, 510, {{1, 40, 1}});
  CHECK(job(first).rates.at(1).samples_per_s == 50);
  report(first, 610, {{1, 41, 3}});
  CHECK(job(first).rates.at(1).samples_per_s == 41);
}

// Two slots; its workers have taken 30 s to start.
struct Restarted : Story {
  JobId first = 0;
  Restarted() : Story(OneSlot::under("worth")) {
    change_hosts({{"h", 2}});
    JobSpec spec = OneSlot::suspended_by_leaving();
    spec.max = 2;
    first = submit("first", spec);
    wait(30);
    report(first, 10, {});
    REQUIRE(job(first).measured_start_s == doctest::Approx(30).epsilon(0.02));
  }
};

TEST_CASE_FIXTURE(Restarted, "what workers took to start is known after a restart of the cluster process") {
  const double took_s = job(first).measured_start_s;
  restart();
  CHECK(job(first).measured_start_s == took_s);
}

TEST_CASE_FIXTURE(Restarted, "a shortened journal says what workers took to start the last time") {
  const auto says = [this] {
    return std::count_if(journal().begin(), journal().end(), [this](const Record& record) {
      return std::holds_alternative<record::Learned>(record) && cluster().needs(record);
    });
  };
  CHECK(says() == 1);
  order(first, Order::kPause);
  give(RunEnded{first, 75});
  order(first, Order::kResume);
  join(first);
  wait(20);
  report(first, 20, {});
  CHECK(job(first).measured_start_s < 25);
  CHECK(says() == 1);
}

TEST_CASE_FIXTURE(Restarted, "the journal says what decisions count with: starts, speeds of new sizes, lengths") {
  const auto learned = [this] {
    std::vector<record::Learned> all;
    for (const Record& record : journal()) {
      if (const auto* one = std::get_if<record::Learned>(&record)) all.push_back(*one);
    }
    return all;
  };
  REQUIRE(learned().size() == 1);
  CHECK(learned().back().workers == job(first).workers);
  report(first, 20, {{2, 50, 3}});
  REQUIRE(learned().size() == 2);
  REQUIRE(learned().back().rates.size() == 1);
  CHECK(learned().back().rates[0].samples_per_s == 50);
  report(first, 30, {{2, 51, 4}});
  CHECK(learned().size() == 2);
}

}  // namespace
}  // namespace elastictrain::cluster_core::test
