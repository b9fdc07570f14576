#include "cli/traces/formats.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>

#include "cli/config/text.h"
#include "cli/traces/cluster_journal.h"
#include "cli/traces/pollux_tables.h"
#include "cli/traces/rows.h"

namespace elastictrain::cli {
namespace {

using heuristics::sharing::Curve;

struct Format {
  const char* name;
  std::vector<std::string> needed;  // columns by which the header is known
  std::vector<std::string> fields;  // of files without a header; the number of fields tells them apart
  std::function<void(Rows&, RawJob&)> read;
};

// Work that is known only as a run time at one size is measured in milliseconds of it, which keeps equal jobs equal.
void set_run_time(RawJob& raw, double run_ms) {
  constexpr double kPerSecond = 1000;
  raw.job.work = run_ms;
  raw.job.curve = std::make_shared<const Curve>(std::vector<Curve::Point>{{raw.job.requested, kPerSecond}});
}

void read_normalised(Rows& rows, RawJob& raw) {
  raw.job.id = rows.text("job_id");
  raw.job.arrival_s = rows.number("arrival_s");
  raw.job.work = rows.number("work_iterations");
  raw.job.requested = rows.slots("requested_gpus");
  raw.curve_name = rows.text("curve");
}

void read_elasticflow(Rows& rows, RawJob& raw) {
  raw.job.id = rows.text("job_id");
  raw.job.arrival_s = rows.number(rows.has("submission_time") ? "submission_time" : "submit_time");
  raw.job.work = rows.number(rows.has("num_iteration") ? "num_iteration" : "iteration");
  raw.job.requested = rows.slots("num_gpu");
  raw.job.model = rows.text("model_name");
  raw.curve_name = raw.job.model + "@" + rows.text("batch_size");
  raw.duration_s = rows.number("duration");
}

// Work is one job: its curve is in jobs a second (curves.h).
void read_pollux(Rows& rows, RawJob& raw) {
  raw.job.id = rows.text("name");
  raw.job.arrival_s = rows.number("time");
  raw.job.work = 1;
  raw.job.requested = rows.slots("num_replicas");
  raw.job.model = rows.text("application");
  raw.curve_name = pollux_curve(raw.job.model, rows.text("batch_size"));
  raw.adapted_curve_name = pollux_curve(raw.job.model, kAdapted);
}

void read_itp(Rows& rows, RawJob& raw) {
  raw.job.id = rows.text("job_id");
  raw.job.arrival_s = rows.number("submission_time");
  raw.duration_s = rows.number("duration");
  raw.job.requested = rows.slots("num_gpu");
}

// "2017-10-09 07:01:55" as seconds since 1970, or nothing.
std::optional<double> seconds_of(const std::string& text) {
  const auto part = [&](std::size_t from, std::size_t length) -> unsigned {
    unsigned value = 0;
    if (from + length > text.size()) return 9999;
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + from + length, value);
    return error == std::errc() && end == text.data() + from + length ? value : 9999;
  };
  const std::chrono::year_month_day day(std::chrono::year(static_cast<int>(part(0, 4))), std::chrono::month(part(5, 2)),
                                        std::chrono::day(part(8, 2)));
  const unsigned hours = part(11, 2), minutes = part(14, 2), seconds = part(17, 2);
  if (text.size() != 19 || !day.ok() || part(0, 4) < 1970 || hours > 23 || minutes > 59 || seconds > 60)
    return std::nullopt;
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return static_cast<double>(days) * 86400 + hours * 3600 + minutes * 60 + seconds;
}

void read_philly(Rows& rows, RawJob& raw) {
  const auto arrival_s = seconds_of(rows.text("timestamp"));
  if (!arrival_s) rows.complain("timestamp", "timestamp must be like 2017-10-09 07:01:55");
  raw.job.id = "line-" + std::to_string(rows.line());
  raw.job.arrival_s = arrival_s.value_or(0);
  raw.duration_s = rows.number("duration");
  raw.job.requested = rows.slots("num_gpus");
  raw.vc = rows.text("cluster");
}

void read_muri(Rows& rows, RawJob& raw) {
  constexpr double kMsPerSecond = 1000;
  raw.job.id = rows.text("job_id");
  raw.job.arrival_s = rows.number("submit_time") / kMsPerSecond;
  raw.job.requested = rows.slots("num_gpu");
  raw.job.model = rows.text("model_name");
  set_run_time(raw, rows.number("iterations") * rows.number("iteration_time"));
  raw.duration_s = raw.job.work / kMsPerSecond;
}

void read_tiresias(Rows& rows, RawJob& raw) {
  raw.job.id = rows.text("job_id");
  raw.job.arrival_s = rows.number("submit_time");
  raw.job.requested = rows.slots("num_gpu");
  raw.job.model = rows.text("model_name");
  raw.duration_s = rows.number("duration");
  set_run_time(raw, raw.duration_s * 1000);
}

void read_gavel_row(Rows& rows, RawJob& raw) {
  raw.job.id = "line-" + std::to_string(rows.line());
  raw.job.arrival_s = rows.number("arrival");
  raw.job.work = rows.number("steps");
  raw.job.requested = rows.slots("scale_factor");
  raw.job.model = raw.curve_name = rows.text("type");
}

void read_shockwave(Rows& rows, RawJob& raw) {
  raw.job.id = "line-" + std::to_string(rows.line());
  raw.job.arrival_s = rows.number("arrival");
  raw.job.requested = rows.slots("scale_factor");
  raw.job.model = rows.text("type");
  raw.duration_s = rows.number("duration");
  set_run_time(raw, raw.duration_s * 1000);
}

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"normalised", {"job_id", "arrival_s", "work_iterations", "requested_gpus", "curve"}, {}, read_normalised},
      {"muri", {"job_id", "num_gpu", "submit_time", "iterations", "model_name", "iteration_time"}, {}, read_muri},
      {"tiresias", {"job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration"}, {}, read_tiresias},
      {"elasticflow",
       {"job_id", "submission_time", "num_iteration", "model_name", "batch_size", "num_gpu"},
       {},
       read_elasticflow},
      {"elasticflow",
       {"job_id", "submit_time", "iteration", "model_name", "batch_size", "num_gpu"},
       {},
       read_elasticflow},
      {"pollux", {"name", "time", "application", "num_replicas", "batch_size"}, {}, read_pollux},
      {"itp", {"job_id", "submission_time", "duration", "num_gpu"}, {}, read_itp},
      {"philly", {"timestamp", "duration", "num_gpus", "cluster"}, {}, read_philly},
      {"gavel", {}, {"type", "command", "flag", "needs_data", "steps", "arrival", "scale_factor"}, read_gavel_row},
      {"gavel",
       {},
       {"type", "command", "directory", "flag", "needs_data", "steps", "scale_factor", "weight", "slo", "arrival"},
       read_gavel_row},
      {"shockwave",
       {},
       {"type", "command", "directory", "flag", "needs_data", "steps", "scale_factor", "mode", "weight", "slo",
        "duration", "arrival"},
       read_shockwave},
  };
  return all;
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, std::min(text.find('\n'), text.size()));
}

bool fits(const Format& format, std::string_view line) {
  if (!format.fields.empty()) {
    return static_cast<std::size_t>(std::count(line.begin(), line.end(), '\t')) + 1 == format.fields.size();
  }
  const auto names = split(line, ',');
  return std::all_of(format.needed.begin(), format.needed.end(), [&](const std::string& needed) {
    return std::find(names.begin(), names.end(), needed) != names.end();
  });
}

const Format* find_format(const std::string& name, std::string_view line) {
  const auto& all = formats();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Format& one) { return (name.empty() || name == one.name) && fits(one, line); });
  return found == all.end() ? nullptr : &*found;
}

// What to say of a file whose columns fit no format, or not the one that it should have.
Error no_format(const TraceText& source, const std::string& name) {
  std::string known;
  for (const Format& one : formats()) {
    if (!name.empty() && name != one.name) continue;
    known += "\n  " + std::string(one.name) + ": " +
             (one.fields.empty() ? join(one.needed, ",") : std::to_string(one.fields.size()) + " fields between tabs");
  }
  return {ErrorCode::kInvalid,
          source.path + ":1:1: the columns are those of no known trace; they must contain" + known};
}

}  // namespace

const std::vector<std::string>& format_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Format& one : formats()) {
      if (std::find(all.begin(), all.end(), one.name) == all.end()) all.emplace_back(one.name);
    }
    all.emplace_back(kClusterFormat);
    return all;
  }();
  return names;
}

Result<RawTrace> read_format(const TraceText& source, const std::string& name) {
  if (name == kClusterFormat || (name.empty() && looks_like_journal(source.text))) return read_cluster_journal(source);
  const std::string_view line = first_line(source.text);
  if (line.size() > kMaxTraceLine) {
    return Error{ErrorCode::kInvalid,
                 source.path + ":1:1: a line of " + std::to_string(line.size()) + " bytes; this is no table"};
  }
  const Format* const format = find_format(name, line);
  if (format == nullptr) return no_format(source, name);
  RawTrace trace{source.path, source.name, format->name, {}, {}};
  const bool tabs = !format->fields.empty();
  Rows rows(source.path, source.text, tabs ? '\t' : ',', !tabs, format->fields);
  while (rows.next()) {
    RawJob raw;
    raw.line = rows.line();
    format->read(rows, raw);
    if (rows.failed()) break;
    trace.jobs.push_back(std::move(raw));
  }
  if (rows.failed()) return rows.error();
  if (trace.jobs.empty()) return Error{ErrorCode::kInvalid, source.path + ": the trace has no jobs"};
  return trace;
}

}  // namespace elastictrain::cli
