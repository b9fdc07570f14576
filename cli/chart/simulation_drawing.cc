#include "cli/chart/simulation_drawing.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "cli/chart/chart.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::cli {
namespace {

using chart::Quantity;
using chart::Span;
using heuristics::cluster::Change;

constexpr std::size_t kSamples = 400;
constexpr std::size_t kNamedJobs = 10;  // the others are drawn as one
constexpr double kPanelHeight_px = 260;
constexpr double kShortest_s = 1;  // of a job that is drawn; shorter ones are at the left edge
static_assert(kNamedJobs <= chart::kColours);

std::vector<double> sorted_times(const SimulatedRun& run) {
  std::vector<double> times;
  for (const auto& result : run.outcome.jobs) {
    times.push_back(std::max(kShortest_s, result.completion_s - run.trace->jobs[result.job].arrival_s));
  }
  std::sort(times.begin(), times.end());
  return times;
}

// "srtf, 64 slots", with what else tells the runs apart.
std::string name_of(const SimulatedRun& run) {
  return run.policy->name + ", " + protocol::counted(run.options.slots, "slot") + ", " + run.trace->name +
         (run.trace->vc.empty() ? "" : " " + run.trace->vc);
}

chart::Curve distribution_of(const std::vector<double>& times) {
  chart::Curve curve;
  curve.pieces.emplace_back();
  for (std::size_t i = 0; i <= kSamples; ++i) {
    const double share = static_cast<double>(i) / kSamples;
    const auto at = std::min(times.size() - 1, static_cast<std::size_t>(share * static_cast<double>(times.size())));
    curve.pieces.back().push_back({times[at], share, share, share});
  }
  return curve;
}

chart::Panel distribution(const std::vector<SimulatedRun>& runs) {
  chart::Panel panel;
  std::vector<double> ends;
  for (std::size_t place = 0; place < runs.size(); ++place) {
    const std::vector<double> times = sorted_times(runs[place]);
    if (times.empty()) continue;
    ends.insert(ends.end(), {times.front(), times.back()});
    panel.chart.curves.push_back(distribution_of(times));
    panel.chart.curves.back().classes = chart::colour_class(place);
    panel.legend.push_back({chart::colour_class(place), chart::Sign::kLine, name_of(runs[place])});
  }
  panel.chart.title = "jobs that ended within a time";
  panel.chart.height_px = kPanelHeight_px;
  panel.chart.x = {ends, Quantity::kSeconds, Span::kExact};
  panel.chart.y = {{0, 1}, Quantity::kPercent, Span::kExact};
  panel.x_title = "from a job's arrival to its end";
  return panel;
}

// The rows of the second drawing: the jobs that held most, and all others together.
std::map<std::uint32_t, std::size_t> named_jobs(const SimulatedRun& run) {
  std::vector<std::uint32_t> order(run.outcome.jobs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return run.outcome.jobs[a].slot_s > run.outcome.jobs[b].slot_s;
  });
  order.resize(std::min(order.size(), kNamedJobs));
  std::map<std::uint32_t, std::size_t> rows;
  for (const std::uint32_t job : order) rows.emplace(job, rows.size());
  return rows;
}

// What the jobs of each row held at kSamples times, one on top of the other. The last row: all others.
using Stack = std::array<std::vector<chart::CurvePoint>, kNamedJobs + 1>;

Stack stack_of(const SimulatedRun& run, const std::map<std::uint32_t, std::size_t>& rows, double start_s) {
  std::vector<double> held(run.outcome.jobs.size());
  std::array<double, kNamedJobs + 1> sums{};
  Stack stack;
  std::size_t next = 0;
  for (std::size_t i = 0; i <= kSamples; ++i) {
    const double at_s = run.figures.makespan_s * static_cast<double>(i) / kSamples;
    for (; next < run.changes.size() && run.changes[next].time_s <= start_s + at_s; ++next) {
      const Change& change = run.changes[next];
      const auto row = rows.find(change.job);
      sums[row == rows.end() ? kNamedJobs : row->second] += change.slots - held[change.job];
      held[change.job] = change.slots;
    }
    double below = 0;
    for (std::size_t row = 0; row < sums.size(); ++row) {
      const double above = below + std::max(0.0, sums[row]);
      stack[row].push_back({at_s, above, below, above});
      below = above;
    }
  }
  return stack;
}

chart::Panel slots_over_time(const SimulatedRun& run) {
  chart::Panel panel;
  const auto rows = named_jobs(run);
  Stack stack = stack_of(run, rows, run.trace->jobs.empty() ? 0 : run.trace->jobs.front().arrival_s);
  for (std::size_t row = 0; row < stack.size(); ++row) {
    chart::Curve layer;
    layer.classes = row == kNamedJobs ? "rest" : chart::colour_class(row);
    layer.steps = true;
    layer.line = false;
    layer.band = true;
    layer.pieces = {std::move(stack[row])};
    panel.chart.curves.push_back(std::move(layer));
  }
  std::vector<std::string> names(rows.size());
  for (const auto& [job, row] : rows) names[row] = "job " + run.trace->jobs[job].id;
  for (std::size_t row = 0; row < names.size(); ++row) {
    panel.legend.push_back({chart::colour_class(row), chart::Sign::kArea, names[row]});
  }
  if (run.outcome.jobs.size() > names.size()) panel.legend.push_back({"rest", chart::Sign::kArea, "all other jobs"});
  panel.chart.title = "slots over time with " + run.policy->name + ": the jobs that held most, and all others";
  panel.chart.height_px = kPanelHeight_px;
  panel.chart.x = {{0, run.figures.makespan_s}, Quantity::kSeconds, Span::kExact, chart::Scale::kLinear};
  panel.chart.y = {{0, static_cast<double>(run.options.slots)}, Quantity::kWhole, Span::kExact, chart::Scale::kLinear};
  panel.x_title = "since the first arrival";
  return panel;
}

}  // namespace

std::string simulation_svg(const std::vector<SimulatedRun>& runs) {
  return chart::document("simulated jobs", "", {distribution(runs), slots_over_time(runs.front())});
}

}  // namespace elastictrain::cli
