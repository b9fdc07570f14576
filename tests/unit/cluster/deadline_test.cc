// Deadlines of jobs of a cluster, told as stories: what is measured in views that arrive one by one is acted upon when it
// becomes a measurement, and when it changes.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "supervisor/cluster/core/cluster.h"

namespace elastictrain::jobs::test {
namespace {

// Four slots of one host. Runs do at once what their leases say.
class Story {
 public:
  Story() { begin(); }

  // The cluster process is killed and started again.
  void restart() { begin(); }

  JobId submit(const std::string& name, std::optional<double> deadline_s, std::uint64_t samples_total) {
    JobSpec spec;
    spec.name = name;
    spec.min = 1;
    spec.max = 4;
    spec.start = 4;
    spec.samples_total = samples_total;
    spec.deadline_s = deadline_s;
    step(Submit{1, {0, "root", true}, {}, spec, now_s_});
    const JobId id = cluster_->jobs().rbegin()->first;
    if (job(id).share > 0) join(id);
    return id;
  }

  void join(JobId id) {
    const Job& job = cluster_->jobs().at(id);
    Join join;
    join.connection = id;
    join.owner = {0, "root", true};
    join.job = id_text(id);
    join.directory = "/runs/" + job.spec.name;
    join.spec = job.spec;
    join.lease = cluster_->book().lease(id).version;
    join.holds = cluster_->book().lease(id).slots;
    step(join);
  }

  // The job has trained so many samples, and says what it has measured.
  void report(JobId id, std::uint64_t samples, std::vector<RateSeen> rates) {
    Report report;
    report.connection = id;
    report.lease = cluster_->book().lease(id).version;
    report.holds = cluster_->book().lease(id).slots;
    report.phase = "training";
    report.workers = static_cast<std::uint32_t>(report.holds.size());
    report.samples = samples;
    report.rates = std::move(rates);
    step(report);
    for (const auto& [other, known] : cluster_->jobs()) follow(other);
  }

  void wait(double seconds) { now_s_ += seconds; }
  const Job& job(JobId id) const { return cluster_->jobs().at(id); }

 private:
  static Settings settings() {
    Settings settings;
    settings.policy = "max-min";
    return settings;
  }

  void begin() {
    cluster_ = std::make_unique<Cluster>(settings());
    for (const Record& record : journal_) cluster_->recall(record, now_s_);
    write(cluster_->begin(now_s_));
    step(HostsChanged{{{"h", 4}}});
  }

  // All that is due by then is done, too.
  void step(const Event& event) {
    write(cluster_->step(event, now_s_));
    now_s_ += 0.1;
    write(cluster_->step(Tick{}, now_s_));
  }

  void write(const Actions& actions) {
    for (const Action& action : actions) {
      if (const auto* written = std::get_if<Write>(&action)) journal_.push_back(written->record);
    }
  }

  void follow(JobId id) {
    const Job& job = cluster_->jobs().at(id);
    const auto& lease = cluster_->book().lease(id);
    if (job.connection == 0 || cluster_->book().seen(id) == lease.version) return;
    Report report;
    report.connection = id;
    report.lease = lease.version;
    report.holds = lease.slots;
    report.samples = job.samples;
    for (const auto& [workers, one] : job.rates) report.rates.push_back({workers, one.samples_per_s, one.views});
    step(report);
  }

  std::unique_ptr<Cluster> cluster_;
  std::vector<Record> journal_;
  double now_s_ = 0;
};

// 198,000 samples in 1,000 s, a tenth of which is a margin: 220 samples a second, two workers of 150.
struct Given : Story {
  JobId late = submit("late", 1000, 198'000);
  JobId fast = 0;
  Given() {
    report(late, 0, {{4, 600, 1}});
    fast = submit("fast", std::nullopt, 100'000'000);
    report(fast, 0, {{1, 5000, 3}});
  }
};

TEST_CASE_FIXTURE(Given, "few views of a job say more of it than what other jobs do") {
  CHECK(job(late).slots_in_time == 2);
  report(late, 100, {{4, 600, 1}, {2, 300, 1}});
  CHECK(job(late).slots_in_time == 2);
  CHECK(job(late).why.find("2 slots for its deadline") != std::string::npos);
}

TEST_CASE_FIXTURE(Given, "a size counts from its third view on, and is decided anew then") {
  report(late, 100, {{4, 600, 1}, {2, 210, 1}});
  CHECK(job(late).slots_in_time == 2);  // (150 + 105) / 2 each, of two views
  report(late, 200, {{4, 600, 1}, {2, 210, 2}});
  CHECK(job(late).slots_in_time == 2);
  report(late, 300, {{4, 600, 1}, {2, 210, 3}});
  CHECK(job(late).slots_in_time == 3);  // 105 each
}

TEST_CASE_FIXTURE(Given, "a job that slows down is given more before its deadline is lost") {
  report(late, 0, {{2, 300, 10}});
  REQUIRE(job(late).share == 2);
  wait(500);
  report(late, 110'000, {{2, 300, 10}});
  CHECK(job(late).slots_in_time == 2);
  wait(150);
  report(late, 120'000, {{2, 235, 20}});  // 78,000 in 350 s: 223 are needed, 235 less a twentieth are had
  CHECK(job(late).slots_in_time == 3);
  CHECK(job(late).share == 3);
}

TEST_CASE_FIXTURE(Given, "a restart of the cluster decides nothing before it knows again what a deadline needs") {
  report(late, 0, {{2, 300, 10}});
  const JobId third = submit("third", std::nullopt, 100'000'000);
  const JobId fourth = submit("fourth", std::nullopt, 100'000'000);
  REQUIRE(job(late).share == 2);
  REQUIRE(job(fourth).share == 0);
  restart();
  for (const JobId id : {late, fast, third}) join(id);
  report(fast, 0, {{1, 5000, 3}});
  report(third, 0, {{1, 5000, 3}});
  CHECK(job(fourth).share == 0);
  report(late, 0, {{2, 300, 10}});
  CHECK(job(late).share == 2);
  CHECK(job(late).slots_in_time == 2);
  CHECK(job(fourth).share == 0);
}

TEST_CASE_FIXTURE(Given, "a deadline that is lost asks for nothing more") {
  report(late, 0, {{2, 300, 10}});
  wait(900);
  report(late, 1000, {{2, 300, 10}});
  CHECK_FALSE(job(late).in_time);
  CHECK(job(late).why.find("cannot be kept") != std::string::npos);
}

}  // namespace
}  // namespace elastictrain::jobs::test
