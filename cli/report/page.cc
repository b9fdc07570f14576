#include "cli/report/page.h"

#include <algorithm>
#include <ctime>

#include "cli/chart/chart.h"
#include "cli/output/figures.h"
#include "cli/output/printable.h"
#include "cli/output/table.h"

namespace elastictrain::cli::run_report {

using chart::escaped;

std::string element(const std::string& tag, const std::string& classes, const std::string& content) {
  return "<" + tag + (classes.empty() ? "" : " class=\"" + classes + "\"") + ">" + content + "</" + tag + ">\n";
}

std::string table(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                  std::uint64_t left_out) {
  std::string text = "<div class=\"scroll\"><table><thead><tr>";
  for (const TableColumn& column : columns) {
    text += std::string("<th") + (column.is_number ? " class=\"number\"" : "") + ">" + escaped(column.title) + "</th>";
  }
  text += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      text += std::string("<td") + (columns[i].is_number ? " class=\"number\"" : "") + ">" + escaped(row[i]) + "</td>";
    }
    text += "</tr>\n";
  }
  text += "</tbody></table></div>\n";
  if (left_out > 0)
    text += element("p", "note",
                    std::to_string(left_out) + " more between the first and the last ones: elastictrain events");
  return text;
}

namespace {

using chart::Chart;
using chart::escaped;
using chart::number_text;

constexpr std::size_t kMaxHeatRows = 48;
constexpr std::size_t kMaxWorkerRows = 64;
constexpr std::size_t kMaxMarkers = 150;
constexpr double kHeatRowHeight_px = 16;
constexpr double kHeatLeft_px = 120;
constexpr const char* kWhichLoss =
    "The training loss is that of one step, the mean over the samples of all workers. What a program says itself "
    "stands under the program's own names: a loss over an epoch, or on other data, differs from it.";
constexpr double kSlowestShown = 1.0;  // twice the usual time has the full colour

std::string date_text(double unix_s) {
  if (!(unix_s > 0 && unix_s < 32'503'680'000.0)) return "-";
  const auto seconds = static_cast<std::time_t>(unix_s);
  tm parts{};
  localtime_r(&seconds, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %Z", &parts);
  return text;
}

std::string when(double at_s) {
  return at_s < 0.0005 ? "0 s" : format_duration(at_s);
}

std::string state_text(const Report& report) {
  if (report.exit_status) {
    return *report.exit_status == 0 ? "ended" : "ended with status " + std::to_string(*report.exit_status);
  }
  if (report.is_live) return "live";
  return "has no supervisor and has not ended: elastictrain run --resume " + report.name + " goes on with it";
}

// By the clock, as the two dates say.
double duration_s(const Report& report) {
  const bool dated = report.began_unix_s > 0 && report.last_unix_s > report.began_unix_s;
  return dated ? report.last_unix_s - report.began_unix_s : report.up_s;
}

// What lies between two supervisors; the clock of the dates and that of the run may differ a little.
double unsupervised_s(const Report& report) {
  const double gap = duration_s(report) - report.up_s;
  return report.supervisors > 1 && gap > 1 ? gap : 0;
}

// --- The head

std::string tile(const std::string& value, const std::string& name) {
  return "<div class=\"tile\"><b>" + escaped(value) + "</b><span>" + escaped(name) + "</span></div>\n";
}

double mean_throughput(const Report& report) {
  Mean all;
  for (const auto& [size, mean] : report.throughput_by_size) all.add(mean);
  return all.value();
}

// As typed; of runs of older versions what a worker was started with.
std::string command_text(const Report& report) {
  return shell_text(report.typed.empty() ? report.command : report.typed);
}

std::string head(const Report& report) {
  std::string text = element("h1", "", "Run " + escaped(report.name));
  std::string line = escaped(state_text(report));
  if (!report.end_reason.empty()) line += ": " + escaped(report.end_reason);
  text += element("p", report.exit_status.value_or(0) == 0 ? "" : "failed", line);
  if (report.audit_failed) text += element("p", "failed", "The audit failed: " + escaped(report.audit));
  text += element("p", "note",
                  escaped(date_text(report.began_unix_s)) + " to " + escaped(date_text(report.last_unix_s)) +
                      ", elastictrain " + escaped(report.version));
  if (const std::string command = command_text(report); !command.empty()) {
    text += element("p", "note", "<code>" + escaped(command) + "</code>");
  }
  return text;
}

std::string tiles(const Report& report) {
  std::string text = tile(format_duration(duration_s(report)), report.exit_status ? "duration" : "so far");
  if (unsupervised_s(report) > 0) text += tile(format_duration(unsupervised_s(report)), "of it without a supervisor");
  text += tile(std::to_string(report.min_workers) + " to " + std::to_string(report.max_workers), "workers allowed");
  if (report.steps > 0) text += tile(std::to_string(report.steps), "steps");
  if (report.has_loss) text += tile(format_loss(report.loss), "training loss, last step seen");
  if (mean_throughput(report) > 0) text += tile(format_count(mean_throughput(report)), "samples/s, mean");
  if (report.samples > 0) text += tile(format_count(report.samples), "samples");
  const std::uint64_t changes = report.changes_made > 0 ? report.changes_made - 1 : 0;
  text += tile(std::to_string(changes), "changes and recoveries");
  text += tile(when(report.idle_s), "idle because of them");
  std::uint64_t losses = 0;
  for (const auto& [name, count] : report.losses_by_class) losses += count;
  text += tile(std::to_string(losses), "losses");
  if (report.supervisors > 1) text += tile(std::to_string(report.supervisors), "supervisors");
  if (report.worker_seconds > 0) {
    text += tile(format_number(report.worker_seconds / 3600, report.worker_seconds < 36'000 ? 3 : 0), "worker-hours");
  }
  if (report.cost > 0) text += tile(format_number(report.cost, 2), "cost");
  for (const auto& [key, value] : report.notes) text += tile(value, key + ", said by the program");
  return "<div class=\"tiles\">\n" + text + "</div>\n" + (report.has_loss ? element("p", "note", kWhichLoss) : "") +
         (report.audit.empty() || report.audit_failed ? "" : element("p", "note", "Audit: " + escaped(report.audit)));
}

// --- Over time

const char* class_of(IncidentKind kind) {
  switch (kind) {
    case IncidentKind::kLoss:
    case IncidentKind::kHang:
    case IncidentKind::kHost:
      return "loss";
    case IncidentKind::kStraggler:
      return "slow";
    default:
      return "other";
  }
}

std::vector<chart::Mark> marks_of(const Report& report) {
  std::vector<chart::Mark> marks;
  for (const Incident& incident : report.incidents.rows) {
    if (incident.kind == IncidentKind::kHalt || incident.kind == IncidentKind::kEnd) continue;
    if (marks.size() == kMaxMarkers) break;
    marks.push_back({incident.at_s, class_of(incident.kind), when(incident.at_s) + ": " + incident.what});
  }
  return marks;
}

chart::Axis time_axis(const Report& report) {
  return {{0, std::max(report.up_s, 0.1)}, chart::Quantity::kSeconds, chart::Span::kExact, chart::Scale::kLinear};
}

std::string drawn(const Report& report, const char* title, const std::string& unit, Chart chart) {
  chart.title = title;
  chart.x = time_axis(report);
  chart.marks = marks_of(report);
  for (chart::Curve& curve : chart.curves) curve.classes = "c1";
  return element("h3", "", escaped(title) + " <small>" + escaped(unit) + "</small>") + chart::plot(chart);
}

std::string size_curve(const Report& report) {
  chart::Curve curve;
  curve.steps = true;
  std::vector<chart::CurvePoint> points;
  std::vector<double> values;
  for (const SizeChange& size : report.sizes) {
    values.push_back(static_cast<double>(size.workers));
    points.push_back({size.at_s, values.back(), values.back(), values.back()});
  }
  if (points.empty()) return "";
  points.push_back(points.back());
  points.back().at = report.up_s;
  curve.pieces = {points};
  Chart chart;
  chart.curves = {curve};
  chart.y = {values, chart::Quantity::kWhole, chart::Span::kFromZero};
  return drawn(report, "Workers", "that train together", chart);
}

double view_interval_s(const Report& report) {
  return report.up_s / static_cast<double>(std::max<std::uint64_t>(report.views, 1));
}

// Buckets that lie further apart than this are not joined by a line: nothing was measured between them.
double longest_join_s(const Report& report, const Timeline& timeline) {
  return 4 * std::max(view_interval_s(report), timeline.width_s());
}

chart::Curve mean_curve(const Report& report, const Timeline& timeline) {
  chart::Curve curve;
  curve.band = true;
  double last_s = -1e18;
  for (std::size_t i = 0; i < timeline.buckets().size(); ++i) {
    const Mean& mean = timeline.buckets()[i];
    if (mean.weight <= 0) continue;
    const double at_s = (static_cast<double>(i) + 0.5) * timeline.width_s();
    if (at_s - last_s > longest_join_s(report, timeline)) curve.pieces.emplace_back();
    curve.pieces.back().push_back({at_s, mean.value(), mean.min, mean.max});
    last_s = at_s;
  }
  return curve;
}

std::string mean_chart(const Report& report, const Timeline& timeline, const char* title, const char* unit,
                       chart::Span span) {
  if (timeline.empty()) return "";
  Chart chart;
  chart.curves = {mean_curve(report, timeline)};
  std::vector<double> values;
  for (const auto& piece : chart.curves.front().pieces) {
    for (const chart::CurvePoint& point : piece) values.insert(values.end(), {point.low, point.high});
  }
  chart.y = {values, chart::Quantity::kNumber, span};
  return drawn(report, title, std::string(unit) + (chart.y.logarithmic() ? ", logarithmic" : ""), chart);
}

std::string over_time(const Report& report) {
  const std::string text =
      size_curve(report) + mean_chart(report, report.throughput, "Throughput", "samples/s", chart::Span::kFromZero) +
      mean_chart(report, report.losses, "Training loss", "of one step at each look", chart::Span::kWithRoom);
  if (text.empty()) return "";
  return element("section", "",
                 element("h2", "", "Over time") + text +
                     element("p", "note",
                             "Lines across: losses of workers and hosts (solid), slow workers and takeovers (dashed). "
                             "The time in which no supervisor was there is left out."));
}

// --- Where the time went

struct Part {
  const char* classes;
  const char* name;
  double seconds;
};

std::vector<Part> parts_of(const Report& report) {
  const double start = std::min(report.first_step_s.value_or(report.up_s), report.up_s);
  const double idle = std::min(report.idle_s, report.up_s - start);
  const double training = report.up_s - start - idle;
  const StepParts& sums = report.parts;
  const double known = sums.compute_s + sums.data_wait_s + sums.communicate_s + sums.update_s;
  std::vector<Part> parts;
  if (sums.step_s > 0) {
    const double scale = training / std::max(sums.step_s, known);
    parts = {{"p1", "computing", sums.compute_s * scale},
             {"p2", "waiting for data", sums.data_wait_s * scale},
             {"p3", "communicating, with the wait for the slowest worker", sums.communicate_s * scale},
             {"p4", "updating", sums.update_s * scale},
             {"p5", "the rest of the steps", std::max(0.0, sums.step_s - known) * scale}};
  } else {
    parts = {{"p1", "training", training}};
  }
  parts.push_back({"p6", "idle because of changes and recoveries", idle});
  parts.push_back({"p7", "starting, until the first step", start});
  return parts;
}

std::string where_time_went(const Report& report) {
  if (!(report.up_s > 0)) return "";
  std::string bar;
  std::string legend;
  for (const Part& part : parts_of(report)) {
    const double percent = 100 * part.seconds / report.up_s;
    bar += "<i class=\"" + std::string(part.classes) + "\" style=\"width:" + number_text(percent, 3) + "%\"></i>";
    legend += "<span><i class=\"key " + std::string(part.classes) + "\"></i>" + escaped(part.name) + ": " +
              escaped(part.seconds > 0 ? format_duration(part.seconds) : "0 s") + ", " + number_text(percent, 1) +
              " %</span>\n";
  }
  std::string text =
      element("h2", "", "Where the time went") + element("div", "bar", bar) + element("div", "parts", legend);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [size, mean] : report.throughput_by_size) {
    rows.push_back({std::to_string(size), format_duration(mean.weight), format_count(mean.value()),
                    size > 0 ? format_count(mean.value() / size) : "-"});
  }
  if (!rows.empty()) {
    text += table({{"workers", true}, {"seen for", true}, {"samples/s", true}, {"of one worker", true}}, rows);
  }
  return element("section", "", text);
}

// --- Changes and incidents

std::string took(const Change& change) {
  if (!change.cancelled.empty()) return "dropped: " + change.cancelled;
  return change.committed_s ? format_duration(std::max(0.0, *change.committed_s - change.planned_s)) : "-";
}

std::string changes(const Report& report) {
  std::vector<std::vector<std::string>> rows;
  for (const Change& change : report.changes.rows) {
    rows.push_back({when(change.planned_s), std::to_string(change.generation), change.kind,
                    std::to_string(change.size_before) + " to " + std::to_string(change.size), took(change),
                    change.idle_s ? format_duration(*change.idle_s) : "-", change.reason});
  }
  if (rows.empty()) return "";
  return element("section", "",
                 element("h2", "", "Changes") +
                     table({{"at", true},
                            {"generation", true},
                            {"change"},
                            {"workers"},
                            {"prepared for", true},
                            {"idle", true},
                            {"why"}},
                           rows, report.changes.total - rows.size()) +
                     element("p", "note",
                             "Workers train on while a change is prepared; idle is the time in which none "
                             "made progress because of it."));
}

const char* name_of(IncidentKind kind) {
  switch (kind) {
    case IncidentKind::kLoss:
      return "loss";
    case IncidentKind::kHang:
      return "hang";
    case IncidentKind::kHost:
      return "host";
    case IncidentKind::kHalt:
      return "recovery";
    case IncidentKind::kSupervisor:
      return "supervisor";
    case IncidentKind::kStraggler:
      return "slow worker";
    case IncidentKind::kEnd:
      return "end";
  }
  return "";
}

std::string incidents(const Report& report) {
  std::vector<std::vector<std::string>> rows;
  for (const Incident& incident : report.incidents.rows) {
    rows.push_back({when(incident.at_s), date_text(incident.unix_s), name_of(incident.kind), incident.what});
  }
  if (rows.empty()) return "";
  return element("section", "",
                 element("h2", "", "Losses, recoveries and slow workers") +
                     table({{"at", true}, {"date"}, {"what"}, {""}}, rows, report.incidents.total - rows.size()));
}

// --- Workers

std::vector<const WorkerReport*> slowest_first(const Report& report) {
  std::vector<const WorkerReport*> workers;
  for (const auto& [id, worker] : report.workers) workers.push_back(&worker);
  const auto slowness = [](const WorkerReport* worker) {
    Mean all;
    for (const Mean& mean : worker->slowness.buckets()) all.add(mean);
    return all.value();
  };
  std::stable_sort(workers.begin(), workers.end(),
                   [&](const WorkerReport* a, const WorkerReport* b) { return slowness(a) > slowness(b); });
  return workers;
}

std::string milliseconds(double sum_s, double steps) {
  if (steps <= 0) return "-";
  const double value = 1e3 * sum_s / steps;
  return format_number(value, value < 10 ? 2 : 1);
}

std::string worker_table(const std::vector<const WorkerReport*>& workers) {
  std::vector<std::vector<std::string>> rows;
  for (const WorkerReport* worker : workers) {
    if (rows.size() == kMaxWorkerRows) break;
    const StepParts& parts = worker->parts;
    rows.push_back({"w" + std::to_string(worker->id), parts.steps > 0 ? std::to_string(worker->rank) : "-",
                    worker->host, format_number(parts.steps, 0), milliseconds(parts.step_s, parts.steps),
                    milliseconds(parts.compute_s, parts.steps), milliseconds(parts.data_wait_s, parts.steps),
                    milliseconds(parts.communicate_s, parts.steps), worker->fate});
  }
  return table({{"worker"},
                {"rank", true},
                {"host"},
                {"steps seen", true},
                {"step ms", true},
                {"compute", true},
                {"data", true},
                {"communicate", true},
                {"end"}},
               rows, workers.size() - rows.size());
}

// One row: each cell is a worker's compute time in a part of the run, darker than the others where it was slow.
void add_heat_row(Chart& chart, const WorkerReport& worker, double end_s, double width_s) {
  const std::size_t row = chart.rows.size();
  const std::string name = "w" + std::to_string(worker.id);
  chart.rows.push_back(name + " " + worker.host);
  Timeline slowness = worker.slowness;
  slowness.widen_to(width_s);
  for (std::size_t i = 0; i < slowness.buckets().size(); ++i) {
    const Mean& mean = slowness.buckets()[i];
    if (mean.weight <= 0) continue;
    const double begin_s = std::min(static_cast<double>(i) * width_s, end_s);
    const double until_s = std::min({begin_s + width_s, end_s, worker.ended_s.value_or(end_s)});
    if (until_s <= begin_s) continue;
    chart.cells.push_back({row, begin_s, until_s, (mean.value() - 1) / kSlowestShown,
                           name + " at " + when(begin_s) + ": " + number_text(mean.value(), 2) + " times"});
  }
  if (!worker.ended_s || *worker.ended_s >= end_s) return;
  chart.row_ends.push_back(
      {row, *worker.ended_s, worker.failed, name + " at " + when(*worker.ended_s) + ": " + worker.fate});
}

std::string heat_legend() {
  std::string legend = "<span>as the median worker or faster</span>";
  for (const double strength : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    legend += "<i class=\"shade\" style=\"opacity:" + number_text(chart::cell_opacity(strength), 2) + "\"></i>";
  }
  return element("div", "parts scale",
                 legend + "<span>" + number_text(1 + kSlowestShown, 1) +
                     " times as long or more</span>\n<span>| left or finished</span>\n<span>× failed</span>");
}

// At least as wide as the time between two views, so that a row has no gaps.
double heat_width_s(const Report& report, const std::vector<const WorkerReport*>& rows, double end_s) {
  double width_s = std::max(end_s / kMaxHeatBuckets, view_interval_s(report));
  for (const WorkerReport* worker : rows) width_s = std::max(width_s, worker->slowness.width_s());
  double power = 0.25;
  while (power < std::min(width_s, 1e12)) power *= 2;
  return power;
}

std::string heat_map(const Report& report, const std::vector<const WorkerReport*>& workers) {
  std::vector<const WorkerReport*> rows;
  for (const WorkerReport* worker : workers) {
    if (!worker->slowness.empty() && rows.size() < kMaxHeatRows) rows.push_back(worker);
  }
  if (rows.empty()) return "";
  std::sort(rows.begin(), rows.end(), [](const WorkerReport* a, const WorkerReport* b) { return a->id < b->id; });
  const double end_s = std::max(report.up_s, 0.1);
  const double width_s = heat_width_s(report, rows, end_s);
  Chart chart;
  chart.title = "compute time of each worker";
  chart.x = time_axis(report);
  chart.left_px = kHeatLeft_px;
  chart.height_px = std::max(40.0, static_cast<double>(rows.size()) * kHeatRowHeight_px);
  for (const WorkerReport* row : rows) add_heat_row(chart, *row, end_s, width_s);
  return element("h3", "", "Compute time <small>of a step, against the median worker</small>") + chart::plot(chart) +
         heat_legend();
}

std::string workers(const Report& report) {
  const auto sorted = slowest_first(report);
  if (sorted.empty()) return "";
  std::string text = element("h2", "", "Workers") + heat_map(report, sorted) + worker_table(sorted);
  return element("section", "", text);
}

}  // namespace

std::string render_page(const Report& report) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>elastictrain: run " +
         escaped(report.name) + "</title>\n<style>" + chart::kStyle + kStyle + "</style></head>\n<body><main>\n" +
         head(report) + tiles(report) + over_time(report) + where_time_went(report) + changes(report) +
         incidents(report) + workers(report) + "</main></body></html>\n";
}

}  // namespace elastictrain::cli::run_report
