#include "cli/traces/cluster_journal.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "cli/config/text.h"
#include "cli/traces/rows.h"
#include "supervisor/cluster/cluster_journal.h"
#include "supervisor/cluster/core/cluster.h"
#include "supervisor/protocol/counted.h"

namespace elastictrain::cli {
namespace {

namespace record = jobs::record;

constexpr std::size_t kNamedJobs = 5;  // jobs that a note names

struct Seen {
  jobs::Job job;
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
  const std::map<jobs::JobId, Seen>& seen() const { return seen_; }

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

  std::vector<jobs::HostLine> hosts_;
  std::map<jobs::JobId, Seen> seen_;
  std::size_t line_ = 0;
  std::size_t records_ = 0;
  std::size_t unreadable_ = 0;
  std::size_t wrong_line_ = 0;
  bool ordered_ = false;
};

// Without a measured size: what it made in all, for each slot.
double rate_of_a_slot(const jobs::Job& job) {
  return job.slot_s > 0 ? static_cast<double>(job.samples) / job.slot_s : 1;
}

RawJob raw_job(const Seen& seen, double first_unix_s) {
  RawJob raw;
  raw.line = seen.line;
  raw.job.id = jobs::id_text(seen.job.id);
  raw.job.model = seen.job.spec.name;
  raw.job.arrival_s = std::max(0.0, seen.job.submitted_unix_s - first_unix_s);
  raw.job.work = static_cast<double>(seen.job.samples);
  raw.job.requested = std::max(1U, seen.job.spec.start);
  raw.job.least = std::clamp(seen.job.spec.min, 1U, heuristics::sharing::kMaxElasticSlots);
  raw.job.keeps = !seen.job.spec.suspends;
  const std::uint32_t most = std::clamp(seen.job.spec.max, raw.job.least, heuristics::sharing::kMaxElasticSlots);
  raw.job.curve =
      std::make_shared<const heuristics::sharing::Curve>(jobs::curve_of(seen.job, most, rate_of_a_slot(seen.job)));
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
      left_out.push_back(jobs::id_text(id));
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
