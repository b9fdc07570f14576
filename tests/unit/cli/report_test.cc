#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "cli/report/collector.h"
#include "cli/report/page.h"
#include "supervisor/policy/view_json.h"
#include "tests/support/contains.h"

using namespace elastictrain;
using namespace elastictrain::cli::run_report;
using elastictrain::test::contains;

namespace {

namespace record = core::record;

core::Record observed_view(double now_s, std::uint32_t workers, double rate, std::uint64_t slow_worker = 0) {
  heuristics::ClusterView view;
  view.now_s = now_s;
  view.hosts.push_back({"node1", "", workers, 0, 0, false});
  heuristics::JobView job;
  job.name = "job";
  job.workers = workers;
  job.steps_done = now_s * 10;
  job.samples_done = now_s * rate;
  job.loss = 1 / (1 + now_s);
  job.has_loss = true;
  job.worker_seconds = now_s * workers;
  job.cost = now_s * 0.01;
  job.intervals.push_back({now_s - 1, now_s, workers, 10, static_cast<std::uint64_t>(rate), 32, false});
  for (std::uint64_t id = 1; id <= workers; ++id) {
    heuristics::WorkerView member;
    member.id = id;
    member.rank = static_cast<std::uint32_t>(id - 1);
    member.steps = 10;
    member.compute_s = id == slow_worker ? 0.09 : 0.05;
    member.communicate_s = 0.1 - member.compute_s;
    member.step_s = 0.1;
    job.members.push_back(member);
  }
  view.jobs.push_back(job);
  return record::Observed{{policy::to_json(view)}};
}

record::GenerationComplete complete(Generation generation, std::uint64_t size, Step step) {
  record::GenerationComplete made;
  made.generation = generation;
  made.first_step = step;
  made.world_size = size;
  return made;
}

record::Prepare prepare(Generation generation, std::uint32_t size, const char* reason) {
  record::Prepare made;
  made.generation = generation;
  made.kind = protocol::ChangeKind::kGrow;
  made.reason = reason;
  for (std::uint32_t i = 1; i <= size; ++i) made.members.push_back(WorkerId{i});
  return made;
}

Report small_run() {
  Collector collector;
  record::RunOpened opened;
  opened.run = "job <1>";
  opened.command = {"python3", "train.py", "--name=<b>"};
  opened.max_workers = 4;
  collector.take(opened, 0, 1'700'000'000);
  collector.take(complete(1, 2, 1), 1, 1'700'000'001);
  for (int second = 2; second < 10; ++second)
    collector.take(observed_view(second, 2, 100), second, 1'700'000'000 + second);
  collector.take(prepare(2, 3, "a user asked for it"), 10, 1'700'000'010);
  collector.take(record::Commit{2, 3, "a user asked for it"}, 10.5, 1'700'000'010);
  collector.take(complete(2, 3, 100), 10.6, 1'700'000'011);
  collector.take(record::Idle{2, 12.5}, 11, 1'700'000'011);
  for (int second = 12; second < 20; ++second)
    collector.take(observed_view(second, 3, 150, 3), second, 1'700'000'000 + second);
  collector.take(record::Loss{"crash", 1, "rank 1 was killed by <script>alert(1)</script>"}, 20, 1'700'000'020);
  collector.take(record::RunClosed{0, "training finished"}, 21, 1'700'000'021);
  return collector.result();
}

}  // namespace

TEST_CASE("a timeline of any length keeps its values in a bounded number of buckets") {
  Timeline timeline(8);
  for (int i = 0; i < 100'000; ++i) timeline.add(i, mean_of(i % 2 == 0 ? 1 : 3));
  CHECK(timeline.buckets().size() <= 8);
  CHECK(timeline.buckets().size() > 4);
  double weight = 0;
  for (const Mean& mean : timeline.buckets()) weight += mean.weight;
  CHECK(weight == 100'000);
  CHECK(timeline.buckets().front().value() == doctest::Approx(2));
  CHECK(timeline.buckets().front().min == 1);
  CHECK(timeline.buckets().front().max == 3);
  timeline.add(1e300, mean_of(1));
  timeline.add(-5, mean_of(1));
  timeline.add(std::numeric_limits<double>::quiet_NaN(), mean_of(1));
  timeline.add(1, mean_of(std::numeric_limits<double>::infinity()));
  CHECK(timeline.buckets().size() <= 8);
}

TEST_CASE("a report counts sizes, changes, losses and where the time went") {
  const Report report = small_run();
  REQUIRE(report.sizes.size() == 3);
  CHECK(report.sizes[0].workers == 2);
  CHECK(report.sizes[1].workers == 3);
  CHECK(report.sizes[2].workers == 0);
  REQUIRE(report.changes.rows.size() == 1);
  CHECK(report.changes.rows[0].size_before == 2);
  CHECK(report.changes.rows[0].size == 3);
  CHECK(report.changes.rows[0].idle_s == doctest::Approx(0.0125));
  CHECK(report.idle_s == doctest::Approx(0.0125));
  CHECK(report.first_step_s == doctest::Approx(1));
  CHECK(report.losses_by_class.at("crash") == 1);
  CHECK(report.exit_status == 0);
  CHECK(report.cost == doctest::Approx(0.19));
  CHECK(report.throughput_by_size.at(3).value() == doctest::Approx(150));
  // 8 views of 2 workers and 8 of 3, each of 10 steps.
  CHECK(report.parts.steps == doctest::Approx(400));
  CHECK(report.parts.compute_s == doctest::Approx(8 * 10 * (2 * 0.05 + 2 * 0.05 + 0.09)));
  CHECK(report.workers.at(3).slowness.buckets().back().value() == doctest::Approx(1.8));
}

TEST_CASE("a page escapes what programs say and refers to nothing elsewhere") {
  const std::string page = render_page(small_run());
  CHECK(contains(page, "Run job &lt;1&gt;"));
  CHECK(contains(page, "--name=&lt;b&gt;"));
  CHECK(contains(page, "&lt;script&gt;alert(1)"));
  for (const char* part : {"<script", "http:", "https:", "url(", "src="}) CHECK_MESSAGE(!contains(page, part), part);
  CHECK(contains(page, "prefers-color-scheme:dark"));
  CHECK(contains(page, "@media print"));
  CHECK(contains(page, "12.5 ms"));
  CHECK(contains(page, "a user asked for it"));
}

TEST_CASE("a journal of any length makes a page of bounded size") {
  Collector collector;
  collector.take(record::RunOpened{}, 0, 1);
  for (std::uint32_t i = 1; i <= 20'000; ++i) {
    collector.take(prepare(i, 4, "a reason that is long enough to be a reason of a policy in a real run"), i, i);
    collector.take(complete(i, i % 7, i), i, i);
    collector.take(record::Loss{"crash", i, "rank 1 (w2 on node1) was killed by signal 9"}, i, i);
    record::Spawn spawn;
    spawn.worker = WorkerId{i};
    collector.take(spawn, i, i);
    if (i % 10 == 0) collector.take(observed_view(i, 64, 100 + i % 50, 5), i, i);
  }
  const Report report = collector.result();
  CHECK(report.changes.total == 20'000);
  CHECK(report.changes.rows.size() == kMaxRows);
  const std::string page = render_page(report);
  CHECK(page.size() < 2'000'000);
  CHECK(contains(page, "19600 more between the first and the last ones"));
}

TEST_CASE("a report of a journal without views, or of nothing at all, is a page") {
  CHECK(contains(render_page(Report{}), "</html>"));
  Collector collector;
  collector.take(record::RunOpened{}, std::numeric_limits<double>::quiet_NaN(), -1);
  collector.take(record::Observed{{"{}"}}, 1, 2);
  collector.take(record::Observed{{"[1,2"}}, 1, 2);
  CHECK(contains(render_page(collector.result()), "has no supervisor"));
}
