#include "cli/traces/formats.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "cli/config/text.h"
#include "cli/traces/curves.h"
#include "cli/traces/rows.h"
#include "supervisor/cluster/cluster_journal.h"
#include "supervisor/cluster/core/cluster.h"
#include "supervisor/protocol/display_text.h"

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

namespace {

namespace record = cluster_core::record;

constexpr std::size_t kNamedJobs = 5;  // jobs that a note names

struct Seen {
  cluster_core::Job job;
  std::size_t line = 0;
  bool ended = false;
};

// What happened to the jobs, line by line.
class Reader {
 public:
  void take(const std::string& line, std::size_t number) {
    const auto read = cluster::read_journal_line(line, hosts_);
    if (!read) {
      ++unreadable_;
      return;
    }
    line_ = number;
    ++records_;
    std::visit([this](const auto& one) { on(one); }, read->record);
  }

  std::size_t records() const { return records_; }
  std::size_t unreadable() const { return unreadable_; }
  bool ordered() const { return ordered_; }
  // A number that no cluster writes: its line; 0: there is none.
  std::size_t wrong_line() const { return wrong_line_; }
  const std::map<cluster_core::JobId, Seen>& seen() const { return seen_; }

 private:
  void check(double number) {
    if (wrong_line_ == 0 && !(number >= 0 && number <= kMaxTraceNumber)) wrong_line_ = line_;
  }
  template <typename Other>
  void on(const Other&) {}
  void on(const record::Hosts& one) { hosts_ = one.hosts; }
  void on(const record::Submitted& one) {
    check(one.unix_s);
    Seen& seen = seen_[one.job];
    seen.line = line_;
    seen.job.id = one.job;
    seen.job.spec = one.spec;
    seen.job.submitted_unix_s = one.unix_s;
    ordered_ = ordered_ || one.spec.priority != 0;
  }
  void on(const record::HasJoined& one) {
    if (const auto found = seen_.find(one.job); found != seen_.end()) found->second.job.spec.suspends = one.suspends;
  }
  void on(const record::Ordered&) { ordered_ = true; }
  void on(const record::HasEnded& one) {
    check(static_cast<double>(one.samples));
    check(one.slot_s);
    for (const auto& rate : one.rates) check(rate.samples_per_s);
    const auto found = seen_.find(one.job);
    if (found == seen_.end()) return;
    Seen& seen = found->second;
    seen.ended = true;
    seen.job.samples = one.samples;
    seen.job.slot_s = one.slot_s;
    for (const auto& rate : one.rates) seen.job.rates[rate.workers] = {rate.samples_per_s, rate.views};
  }

  std::vector<cluster_core::HostLine> hosts_;
  std::map<cluster_core::JobId, Seen> seen_;
  std::size_t line_ = 0;
  std::size_t records_ = 0;
  std::size_t unreadable_ = 0;
  std::size_t wrong_line_ = 0;
  bool ordered_ = false;
};

// Without a measured size: what it made in all, for each slot.
double rate_of_a_slot(const cluster_core::Job& job) {
  return job.slot_s > 0 ? static_cast<double>(job.samples) / job.slot_s : 1;
}

RawJob raw_job(const Seen& seen, double first_unix_s) {
  RawJob raw;
  raw.line = seen.line;
  raw.job.id = cluster_core::id_text(seen.job.id);
  raw.job.model = seen.job.spec.name;
  raw.job.arrival_s = std::max(0.0, seen.job.submitted_unix_s - first_unix_s);
  raw.job.work = static_cast<double>(seen.job.samples);
  raw.job.requested = std::max(1U, seen.job.spec.start);
  raw.job.least = std::clamp(seen.job.spec.min, 1U, heuristics::sharing::kMaxElasticSlots);
  raw.job.keeps = !seen.job.spec.suspends;
  const std::uint32_t most = std::clamp(seen.job.spec.max, raw.job.least, heuristics::sharing::kMaxElasticSlots);
  raw.job.curve = std::make_shared<const heuristics::sharing::Curve>(
      cluster_core::curve_of(seen.job, most, rate_of_a_slot(seen.job)));
  return raw;
}

std::string some_of(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamedJobs)));
  return join(first, ", ") + (names.size() > kNamedJobs ? ", ..." : "");
}

void add_notes(RawTrace& trace, const Reader& reader, const std::vector<std::string>& left_out) {
  if (!left_out.empty()) {
    trace.notes.push_back(trace.name + ": " + protocol::counted(left_out.size(), "job") +
                          " left out, without an end or a sample: " + some_of(left_out));
  }
  if (reader.ordered()) {
    trace.notes.push_back(trace.name +
                          ": priorities, pauses and cancellations were used in the cluster and are not "
                          "simulated; a cancelled job has the work that it did");
  }
  if (reader.unreadable() > 0) {
    trace.notes.push_back(trace.name + ": " + protocol::counted(reader.unreadable(), "line") + " cannot be read");
  }
}

}  // namespace

bool looks_like_journal(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \r\n");
  return begin != std::string::npos && text[begin] == '{';
}

Result<RawTrace> read_cluster_journal(const TraceText& source) {
  Reader reader;
  std::size_t number = 0;
  for (std::size_t at = 0; at < source.text.size();) {
    const std::size_t end = std::min(source.text.find('\n', at), source.text.size());
    ++number;
    if (end > at) reader.take(source.text.substr(at, end - at), number);
    at = end + 1;
  }
  if (reader.records() == 0) {
    return Error{ErrorCode::kInvalid, source.path + ":1:1: this is no journal of a cluster (elastictrain cluster)"};
  }
  if (reader.wrong_line() > 0) {
    return Error{ErrorCode::kInvalid, source.path + ":" + std::to_string(reader.wrong_line()) +
                                          ":1: times, samples and throughputs must be from 0 to 1e15"};
  }
  RawTrace trace{source.path, source.name, kClusterFormat, {}, {}};
  std::vector<std::string> left_out;
  double first_unix_s = std::numeric_limits<double>::infinity();
  for (const auto& [id, seen] : reader.seen()) {
    if (!seen.ended || seen.job.samples == 0) {
      left_out.push_back(cluster_core::id_text(id));
    } else {
      first_unix_s = std::min(first_unix_s, seen.job.submitted_unix_s);
    }
  }
  for (const auto& [id, seen] : reader.seen()) {
    if (seen.ended && seen.job.samples > 0) trace.jobs.push_back(raw_job(seen, first_unix_s));
  }
  if (trace.jobs.empty()) return Error{ErrorCode::kInvalid, source.path + ": no job of this cluster has ended yet"};
  add_notes(trace, reader, left_out);
  return trace;
}

}  // namespace elastictrain::cli
