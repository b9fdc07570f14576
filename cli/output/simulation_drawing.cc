#include "cli/output/simulation_drawing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "cli/output/svg_escaped.h"

namespace elastictrain::cli {
namespace {

using heuristics::cluster::Change;

constexpr double kPanelWidth = 760, kPanelHeight = 260, kPanelLeft = 60, kPanelTop = 40, kPanelGap = 80;
constexpr std::size_t kSamples = 400;
constexpr std::size_t kNamedJobs = 10;  // the others are drawn as one
constexpr std::array kLineColours = {"#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6d597a", "#00798c",
                                     "#8d5a2b", "#c06c84", "#577590", "#7cb518", "#444444"};

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string svg_label(double x, double y, const std::string& text, const char* colour = "#222") {
  return "<text x=\"" + short_number(x) + "\" y=\"" + short_number(y) + "\" fill=\"" + colour + "\">" +
         svg_escaped(text) + "</text>\n";
}

std::string svg_frame(double top) {
  return "<rect x=\"" + short_number(kPanelLeft) + "\" y=\"" + short_number(top) + "\" width=\"" +
         short_number(kPanelWidth) + "\" height=\"" + short_number(kPanelHeight) +
         "\" fill=\"none\" stroke=\"#999\"/>\n";
}

const char* colour_of(std::size_t place) {
  return kLineColours[place % kLineColours.size()];
}

std::vector<double> sorted_times(const SimulatedRun& run) {
  std::vector<double> times;
  for (const auto& result : run.outcome.jobs) {
    times.push_back(std::max(1.0, result.completion_s - run.trace->jobs[result.job].arrival_s));
  }
  std::sort(times.begin(), times.end());
  return times;
}

std::string distribution(const std::vector<SimulatedRun>& runs) {
  double most_s = 10;
  for (const SimulatedRun& run : runs) most_s = std::max(most_s, run.figures.max_jct_s);
  const double decades = std::ceil(std::log10(most_s));
  std::string svg =
      svg_label(kPanelLeft, kPanelTop - 10, "share of jobs that ended within a time (s)") + svg_frame(kPanelTop);
  for (double decade = 0; decade <= decades; ++decade) {
    svg += svg_label(kPanelLeft + kPanelWidth * decade / decades - 10, kPanelTop + kPanelHeight + 16,
                     "1e" + short_number(decade));
  }
  for (std::size_t place = 0; place < runs.size(); ++place) {
    const auto times = sorted_times(runs[place]);
    svg += "<polyline fill=\"none\" stroke=\"" + std::string(colour_of(place)) + "\" points=\"";
    for (std::size_t i = 0; i <= kSamples; ++i) {
      const double share = static_cast<double>(i) / kSamples;
      const auto at = std::min(times.size() - 1, static_cast<std::size_t>(share * static_cast<double>(times.size())));
      svg += short_number(kPanelLeft + kPanelWidth * std::log10(times[at]) / decades) + "," +
             short_number(kPanelTop + kPanelHeight * (1 - share)) + " ";
    }
    const auto& run = runs[place];
    svg += "\"/>\n" + svg_label(kPanelLeft + kPanelWidth + 10, kPanelTop + 14 + 14 * static_cast<double>(place),
                                run.trace->name + " " + run.trace->vc + " " + run.policy->name + " " +
                                    std::to_string(run.options.slots),
                                colour_of(place));
  }
  return svg;
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

std::string slots_over_time(const SimulatedRun& run) {
  const double top = kPanelTop + kPanelHeight + kPanelGap, start_s = run.trace->jobs.front().arrival_s;
  const auto rows = named_jobs(run);
  std::vector<double> held(run.outcome.jobs.size());
  std::array<double, kNamedJobs + 1> sums{};
  std::string svg = svg_label(kPanelLeft, top - 10,
                              "slots over time, " + run.trace->name + " " + run.policy->name +
                                  ": the jobs that held most, and all others (black)") +
                    svg_frame(top);
  std::size_t next = 0;
  const double step = kPanelWidth / kSamples;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const double until_s = start_s + run.figures.makespan_s * static_cast<double>(i) / kSamples;
    for (; next < run.changes.size() && run.changes[next].time_s <= until_s; ++next) {
      const Change& change = run.changes[next];
      const auto row = rows.find(change.job);
      sums[row == rows.end() ? kNamedJobs : row->second] += change.slots - held[change.job];
      held[change.job] = change.slots;
    }
    double below = 0;
    for (std::size_t row = 0; row < sums.size(); ++row) {
      const double height = kPanelHeight * sums[row] / run.options.slots;
      if (height <= 0) continue;
      below += height;
      svg += "<rect x=\"" + short_number(kPanelLeft + step * static_cast<double>(i)) + "\" y=\"" +
             short_number(top + kPanelHeight - below) + "\" width=\"" + short_number(step) + "\" height=\"" +
             short_number(height) + "\" fill=\"" + kLineColours[row] + "\"/>\n";
    }
  }
  svg +=
      svg_label(kPanelLeft, top + kPanelHeight + 16, "0") +
      svg_label(kPanelLeft + kPanelWidth - 60, top + kPanelHeight + 16, short_number(run.figures.makespan_s) + " s") +
      svg_label(10, top + 12, std::to_string(run.options.slots));
  for (const auto& [job, row] : rows) {
    svg += svg_label(kPanelLeft + kPanelWidth + 10, top + 14 + 14 * static_cast<double>(row),
                     "job " + run.trace->jobs[job].id, kLineColours[row]);
  }
  return svg;
}

}  // namespace

std::string simulation_svg(const std::vector<SimulatedRun>& runs) {
  const double width = kPanelLeft + kPanelWidth + 300, height = kPanelTop + 2 * kPanelHeight + kPanelGap + 40;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + short_number(width) + "\" height=\"" +
         short_number(height) +
         "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
         distribution(runs) + slots_over_time(runs.front()) + "</svg>\n";
}

}  // namespace elastictrain::cli
