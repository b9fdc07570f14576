// The pictures are compared with tests/unit/cli/pictures; ELASTICTRAIN_REWRITE_GOLDEN=1 rewrites them for review in the
// diff and in a browser. What may differ: the numbers, by 0.05, since another compiler rounds otherwise. All other text
// is the same.
#include "cli/chart/chart.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "cli/chart/plan_drawing.h"
#include "cli/chart/simulation_drawing.h"
#include "cli/report/page.h"
#include "tests/support/contains.h"

namespace elastictrain::cli {
namespace {

using chart::Axis;
using chart::Quantity;
using chart::Scale;
using chart::Span;
using test::contains;

std::vector<std::string> labels(const Axis& axis, int most) {
  std::vector<std::string> labels;
  for (const chart::Tick& tick : axis.ticks(most)) labels.push_back(tick.label);
  return labels;
}

using Labels = std::vector<std::string>;

// The number at this place, and its length; 0 if there is none.
std::size_t number_at(const std::string& text, std::size_t at, double& value) {
  if (std::isdigit(static_cast<unsigned char>(text[at])) == 0) return 0;
  char* end = nullptr;
  value = std::strtod(text.c_str() + at, &end);
  return static_cast<std::size_t>(end - (text.c_str() + at));
}

bool same_picture(const std::string& a, const std::string& b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    double one = 0, other = 0;
    const std::size_t length = number_at(a, i, one), length_other = number_at(b, j, other);
    if ((length == 0) != (length_other == 0)) return false;
    if (length == 0 ? a[i] != b[j] : std::abs(one - other) > 0.05) return false;
    i += std::max<std::size_t>(length, 1);
    j += std::max<std::size_t>(length_other, 1);
  }
  return i == a.size() && j == b.size();
}

void check_picture(const std::string& name, const std::string& text) {
  const std::string path = std::string(ELASTICTRAIN_SOURCE_DIR) + "/tests/unit/cli/pictures/" + name;
  if (std::getenv("ELASTICTRAIN_REWRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::ostringstream wanted;
  wanted << file.rdbuf();
  CHECK_MESSAGE(same_picture(text, wanted.str()), "the picture differs from " << path);
}

TEST_CASE("an axis has round values, and as many digits as tell them apart") {
  CHECK(labels({{0, 4}, Quantity::kNumber, Span::kExact}, 4) == Labels{"0", "1", "2", "3", "4"});
  CHECK(labels({{0, 4}, Quantity::kNumber, Span::kFromZero}, 4) == Labels{"0", "2", "4"});
  CHECK(labels({{0.6931, 0.6934}, Quantity::kNumber, Span::kExact}, 4) ==
        Labels{"0.6931", "0.6932", "0.6933", "0.6934"});
  CHECK(labels({{0.0121, 0.0187}, Quantity::kNumber, Span::kWithRoom}, 4) ==
        Labels{"0.012", "0.014", "0.016", "0.018"});
  CHECK(labels({{0, 76'000}, Quantity::kNumber, Span::kFromZero}, 4) == Labels{"0", "20k", "40k", "60k"});
  CHECK(labels({{1'000'100, 1'000'400}, Quantity::kNumber, Span::kExact}, 4) ==
        Labels{"1.0001M", "1.0002M", "1.0003M", "1.0004M"});
  CHECK(labels({{2e-7, 8e-7}, Quantity::kNumber, Span::kExact}, 3) == Labels{"2e-7", "4e-7", "6e-7", "8e-7"});
  CHECK(labels({{1, 2}, Quantity::kWhole, Span::kFromZero}, 6) == Labels{"0", "1", "2"});
  CHECK(labels({{0, 1}, Quantity::kPercent, Span::kExact}, 4) == Labels{"0 %", "25 %", "50 %", "75 %", "100 %"});
}

TEST_CASE("an axis is logarithmic over more than a factor of ten") {
  const Axis wide({1, 100}, Quantity::kNumber, Span::kExact);
  CHECK(wide.logarithmic());
  CHECK(wide.position(10) == doctest::Approx(0.5));
  CHECK(labels(wide, 7) == Labels{"1", "2", "5", "10", "20", "50", "100"});
  CHECK(labels(wide, 4) == Labels{"1", "10", "100"});
  CHECK(labels({{0.0004, 2.3}, Quantity::kNumber, Span::kWithRoom}, 5) == Labels{"0.001", "0.01", "0.1", "1"});
  CHECK(labels({{1e-9, 1e9}, Quantity::kNumber, Span::kExact}, 5).size() <= 5);
  CHECK_FALSE(Axis({10, 100}, Quantity::kNumber, Span::kExact).logarithmic());
  CHECK_FALSE(Axis({0, 100}, Quantity::kNumber, Span::kExact).logarithmic());
  CHECK_FALSE(Axis({1, 100}, Quantity::kNumber, Span::kFromZero).logarithmic());
  CHECK_FALSE(Axis({1, 100}, Quantity::kNumber, Span::kExact, Scale::kLinear).logarithmic());
}

TEST_CASE("times are in words") {
  CHECK(labels({{0, 60}, Quantity::kSeconds, Span::kExact}, 6) ==
        Labels{"0", "10 s", "20 s", "30 s", "40 s", "50 s", "1m"});
  CHECK(labels({{0, 7'300}, Quantity::kSeconds, Span::kExact}, 6) == Labels{"0", "30m", "1h", "1h 30m", "2h"});
  CHECK(labels({{0, 0.5}, Quantity::kSeconds, Span::kExact}, 6).front() == "0");
  CHECK(labels({{0, 0.5}, Quantity::kSeconds, Span::kExact}, 6).back() == "500 ms");
  CHECK(labels({{1, 864'000}, Quantity::kSeconds, Span::kExact}, 8) ==
        Labels{"1 s", "10 s", "1m", "10m", "1h", "10h", "1d", "10d"});
  CHECK(labels({{0, 1e9}, Quantity::kSeconds, Span::kExact}, 6).size() <= 7);
  CHECK(chart::short_duration(5'400) == "1h 30m");
  CHECK(chart::short_duration(-1) == "-");
}

TEST_CASE("values that are near each other have an honest axis from 0") {
  const Axis near({997, 1003}, Quantity::kNumber, Span::kHonest);
  CHECK(near.ticks(5).front().value == 0);
  CHECK(near.position(1003) - near.position(997) < 0.01);
  CHECK(Axis({10, 21}, Quantity::kNumber, Span::kHonest).ticks(5).front().value == 10);
}

TEST_CASE("an axis of anything has some ticks inside, at least two") {
  const double cost = 8.6805555555555571, nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& values : std::vector<std::vector<double>>{{0.013, 0.019},
                                                             {7, 7},
                                                             {0, 0},
                                                             {-3, -3},
                                                             {3, 4e5},
                                                             {997, 1003},
                                                             {nan, 1, 2},
                                                             {},
                                                             {1e300, 1.5e300},
                                                             {cost, std::nextafter(cost, 9)},
                                                             {cost, cost * (1 + 1e-7)}}) {
    for (const Quantity quantity : {Quantity::kNumber, Quantity::kSeconds}) {
      for (const Span span : {Span::kExact, Span::kFromZero, Span::kWithRoom, Span::kHonest}) {
        const Axis axis(values, quantity, span);
        const auto ticks = axis.ticks(6);
        CAPTURE(values);
        CHECK(ticks.size() >= 2);
        CHECK(ticks.size() <= 8);
        for (const chart::Tick& tick : ticks) CHECK((axis.position(tick.value) >= 0 && axis.position(tick.value) <= 1));
      }
    }
  }
}

TEST_CASE("text and numbers cannot become markup") {
  CHECK(chart::escaped("a < b & \"c\"\x01\n") == "a &lt; b &amp; &quot;c&quot;\\x01\\x0a");
  CHECK(chart::number_text(0.5, 3) == "0.5");
  CHECK(chart::number_text(-0.0001, 2) == "0");
  CHECK(chart::number_text(100, 2) == "100");
  CHECK(chart::number_text(std::numeric_limits<double>::infinity(), 2) == "0");
}

chart::Chart with_dots(const std::vector<double>& places) {
  chart::Chart chart;
  std::vector<double> values;
  for (const double at : places) {
    chart::Dot dot;
    dot.x = at;
    dot.y = at;
    dot.name = "the one at " + std::to_string(std::lround(at));
    chart.dots.push_back(dot);
    values.push_back(at);
  }
  chart.x = chart.y = {values, Quantity::kNumber, Span::kWithRoom};
  return chart;
}

TEST_CASE("names of dots stay inside and do not meet; where there is no room the later ones have none") {
  const std::string few = chart::plot(with_dots({0, 50, 100}));
  CHECK(contains(few, ">the one at 0<"));
  CHECK(contains(few, "class=\"name before\""));  // at the right edge
  CHECK(contains(few, ">the one at 100<"));
  std::vector<double> many;
  for (int i = 0; i < 100; ++i) many.push_back(100 + i * 0.01);
  many.push_back(0);
  many.push_back(200);
  const std::string crowded = chart::plot(with_dots(many));
  CHECK(contains(crowded, ">the one at 100<"));
  CHECK(contains(crowded, ">the one at 200<"));
  CHECK(!contains(crowded, ">the one at 101<"));
}

TEST_CASE("a curve in steps keeps each value until the next one, in few points") {
  chart::Chart chart;
  chart.x = {{0, 10}, Quantity::kSeconds, Span::kExact, Scale::kLinear};
  chart.y = {{0, 10}, Quantity::kNumber, Span::kExact};
  chart::Curve curve;
  curve.classes = "c1";
  curve.steps = true;
  curve.pieces = {{{0, 2, 2, 2}, {1, 2, 2, 2}, {5, 4, 4, 4}, {10, 4, 4, 4}}};
  chart.curves = {curve};
  CHECK(contains(chart::plot(chart), "points=\"0,80 500,80 500,60 1000,60 \""));
}

TEST_CASE("a row has cells, and a sign where it ends") {
  chart::Chart chart;
  chart.rows = {"w1 <a>", "w2 b"};
  chart.x = {{0, 10}, Quantity::kSeconds, Span::kExact, Scale::kLinear};
  chart.cells = {{0, 0, 5, 0, "t"}, {1, 5, 10, 2, ""}};
  chart.row_ends = {{0, 5, false, "left"}, {1, 7, true, "killed"}};
  const std::string svg = chart::plot(chart);
  CHECK(contains(svg, ">w1 &lt;a&gt;<"));
  CHECK(contains(svg, "x=\"0%\" y=\"3%\" width=\"50%\" height=\"44%\" fill-opacity=\"0.1\"><title>t</title>"));
  CHECK(contains(svg, "fill-opacity=\"1\"></rect>"));
  CHECK(contains(svg, "x=\"50%\" y=\"25%\"><path class=\"end\""));
  CHECK(contains(svg, "class=\"end failed\""));
}

TEST_CASE("a document says all of a long text in lines that fit a narrow picture") {
  std::string words;
  for (int i = 0; i < 40; ++i) words += (i == 0 ? "" : " ") + std::string("word") + std::to_string(i);
  const std::string svg = chart::document("a title", words, {});
  for (int i = 0; i < 40; ++i) CHECK(contains(svg, "word" + std::to_string(i)));
  std::istringstream lines(svg.substr(svg.find("</style>")));
  for (std::string line; std::getline(lines, line);) CHECK(line.size() < 130);
  CHECK(svg.ends_with("</svg>\n"));
}

// --- Pictures as a whole

heuristics::PlanPoint plan_point(std::uint32_t workers, double step_s, bool measured) {
  heuristics::PlanPoint point;
  point.workers = workers;
  point.local_batch = 32;
  point.step_s = step_s;
  point.seconds = 1e6 * step_s / (32 * workers);
  point.cost = 3e-4 * point.seconds * workers;
  point.measured = measured;
  return point;
}

TEST_CASE("a plan of sizes looks as it is meant to") {
  std::vector<heuristics::PlanPoint> points;
  for (std::uint32_t workers = 1; workers <= 16; ++workers) {
    const bool measured = (workers & (workers - 1)) == 0;
    points.push_back(plan_point(workers, 0.12 + 0.01 * workers + 0.0004 * workers * workers, measured));
  }
  points.push_back(plan_point(20, 0.9, false));
  check_picture("plan.svg", plan_svg(heuristics::plan_curve(points, {heuristics::Goal::kKnee, 0}, "$"),
                                     "~/.local/state/elastictrain/job/journal.jsonl"));
}

SimulatedRun simulated(const heuristics::cluster::Trace& trace, const heuristics::sharing::PolicySpec& policy,
                       double factor) {
  SimulatedRun run;
  run.trace = &trace;
  run.policy = &policy;
  run.options.slots = 8;
  for (std::uint32_t job = 0; job < trace.jobs.size(); ++job) {
    const double begin_s = trace.jobs[job].arrival_s, end_s = begin_s + factor * (60 + 400.0 * job);
    heuristics::cluster::JobResult result;
    result.job = job;
    result.completion_s = end_s;
    result.slot_s = (1 + job % 3) * (end_s - begin_s);
    run.outcome.jobs.push_back(result);
    run.figures.makespan_s = std::max(run.figures.makespan_s, end_s);
    run.changes.push_back({begin_s, job, 1.0 + job % 3});
    run.changes.push_back({end_s, job, 0});
  }
  std::stable_sort(run.changes.begin(), run.changes.end(),
                   [](const auto& a, const auto& b) { return a.time_s < b.time_s; });
  return run;
}

TEST_CASE("simulated jobs look as they are meant to") {
  heuristics::cluster::Trace trace;
  trace.name = "a trace with a long name of the place";
  trace.vc = "6c71a0";
  for (int job = 0; job < 14; ++job) {
    heuristics::cluster::TraceJob one;
    one.id = "application_150664992_" + std::to_string(job);
    one.arrival_s = 700.0 * job;
    trace.jobs.push_back(one);
  }
  heuristics::sharing::PolicySpec srtf, fair;
  srtf.name = "srtf";
  fair.name = "max-min";
  check_picture("simulation.svg", simulation_svg({simulated(trace, srtf, 1), simulated(trace, fair, 1.7)}));
}

// --- A report

run_report::WorkerReport slow_worker(std::uint64_t id, const char* host, double end_s, double slowness) {
  run_report::WorkerReport worker;
  worker.id = id;
  worker.rank = static_cast<std::uint32_t>(id - 1);
  worker.host = host;
  worker.parts = {600, 72, 1.5, 40 * slowness, 12, 3};
  for (double at_s = 3; at_s < end_s; at_s += 2)
    worker.slowness.add(at_s, run_report::mean_of(at_s < 60 ? 1 : slowness));
  return worker;
}

run_report::Report report_of_a_run() {
  run_report::Report report;
  report.name = "job";
  report.version = "0.1.0";
  report.command = {"python3", "train.py"};
  report.typed = {"elastictrain", "run", "-n", "1:4", "-x", "TOKEN=...", "--", "python3", "train.py", "--name", "a b"};
  report.min_workers = 1;
  report.max_workers = 4;
  report.began_unix_s = 1'700'000'000;
  report.last_unix_s = 1'700'000'150;
  report.up_s = 130;
  report.supervisors = 2;
  report.first_step_s = 2;
  report.is_live = true;
  report.steps = 1'200;
  report.samples = 120'000;
  report.loss = 0.0021;
  report.has_loss = true;
  report.notes = {{"loss", "0.0430"}, {"train_loss", "0.0119"}};
  report.sizes = {{2, 2}, {40, 3}, {80, 2}, {84, 4}};
  report.views = 65;
  for (int i = 0; i < 64; ++i) {
    const double at_s = 2 + 2 * i;
    report.throughput.add(at_s, run_report::mean_of(at_s < 40 ? 8'000 : 11'500 + 300 * (i % 3), 2));
    report.losses.add(at_s, run_report::mean_of(2.3 * std::exp(-0.055 * at_s)));
  }
  report.throughput_by_size[2].add(run_report::mean_of(8'000, 40));
  report.incidents.add({80, 1'700'000'080, run_report::IncidentKind::kLoss, "crash: rank 1 was killed by <signal 9>"});
  report.incidents.add({100, 1'700'000'120, run_report::IncidentKind::kSupervisor, "another supervisor takes over"});
  report.losses_by_class["crash"] = 1;
  report.workers[1] = slow_worker(1, "node1", 130, 1);
  report.workers[2] = slow_worker(2, "node2.example.org", 80, 1.1);
  report.workers[2].ended_s = 80;
  report.workers[2].failed = true;
  report.workers[2].fate = "signal KILL";
  report.workers[3] = slow_worker(3, "node3", 120, 1.8);
  report.workers[3].ended_s = 120;
  report.workers[3].fate = "left at a step boundary";
  return report;
}

TEST_CASE("a report looks as it is meant to, and says what its figures are") {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  const std::string page = run_report::render_page(report_of_a_run());
  check_picture("report.html", page);
  CHECK(contains(page, "<p>live</p>"));
  CHECK(contains(page, "elastictrain run -n 1:4 -x TOKEN=... -- python3 train.py --name 'a b'"));
  CHECK(contains(page, "<b>2m 30s</b><span>so far</span>"));  // as the dates say
  CHECK(contains(page, "<b>20.0 s</b><span>of it without a supervisor</span>"));
  CHECK(contains(page, "of one step at each look, logarithmic"));
  CHECK(contains(page, "w2 at 1m 20s: signal KILL"));
}

}  // namespace
}  // namespace elastictrain::cli
