#include "cli/traces/traces.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <unordered_set>

#include "cli/config/text.h"
#include "cli/traces/formats.h"

namespace elastictrain::cli {

Result<std::vector<std::filesystem::path>> entries_of(const std::filesystem::path& folder) {
  std::error_code failed;
  std::vector<std::filesystem::path> entries;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    entries.push_back(entry->path());
  }
  if (failed) return Error{ErrorCode::kNoInput, folder.string() + ": " + failed.message()};
  std::sort(entries.begin(), entries.end());
  return entries;
}

namespace {

constexpr std::size_t kTarBlock = 512;  // bytes, of the tar format
constexpr const char* kClusterJournal = "journal.jsonl";

Error unreadable(const std::string& path, const std::string& what) {
  return {ErrorCode::kInvalid, path + ": " + what};
}

Error too_long(const std::string& path) {
  return unreadable(path, "more than " + std::to_string(kMaxTraceBytes >> 20) + " MiB; split it");
}

std::string stem_of(const std::string& path) {
  const std::filesystem::path file = std::filesystem::path(path).filename();
  return (file.extension() == ".gz" ? file.stem() : file).stem().string();
}

// Reads plain and gzip files alike.
Result<std::string> read_expanded(const std::string& path) {
  std::error_code failed;
  const auto kind = std::filesystem::status(path, failed).type();
  if (kind == std::filesystem::file_type::none) return Error{ErrorCode::kNoInput, path + ": " + failed.message()};
  if (kind != std::filesystem::file_type::regular) return Error{ErrorCode::kNoInput, path + ": there is no such file"};
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) return Error{ErrorCode::kNoInput, path + ": " + std::generic_category().message(errno)};
  std::string text;
  constexpr std::size_t kStep = 1 << 20;
  for (;;) {
    const std::size_t before = text.size();
    if (before > kMaxTraceBytes) return too_long(path);
    text.resize(before + kStep);
    const int read = gzread(file.get(), text.data() + before, kStep);
    text.resize(before + static_cast<std::size_t>(std::max(read, 0)));
    int code = Z_OK;
    const char* const what = gzerror(file.get(), &code);
    if (code != Z_OK) return unreadable(path, std::string("the compressed file is cut or damaged (") + what + ")");
    if (read <= 0) return text;
  }
}

struct TarEntry {
  std::string name;
  std::size_t bytes = 0;
  bool regular = false;
};

TarEntry tar_entry(std::string_view header) {
  const auto text = [&](std::size_t from, std::size_t length) {
    const std::string_view field = header.substr(from, length);
    return std::string(field.substr(0, field.find('\0')));
  };
  TarEntry entry;
  entry.name = text(345, 155).empty() ? text(0, 100) : text(345, 155) + "/" + text(0, 100);
  entry.bytes = std::strtoull(text(124, 12).c_str(), nullptr, 8);
  entry.regular = header[156] == '0' || header[156] == '\0';
  return entry;
}

Result<std::vector<TraceText>> members(const std::string& path, const std::string& tar) {
  std::vector<TraceText> texts;
  for (std::size_t at = 0; at + kTarBlock <= tar.size() && tar[at] != '\0';) {
    const TarEntry entry = tar_entry(std::string_view(tar).substr(at, kTarBlock));
    at += kTarBlock;
    if (entry.bytes > tar.size() - at) return unreadable(path, "the archive is cut in " + entry.name);
    if (entry.regular && entry.name.ends_with(".csv")) {
      texts.push_back({path + ":" + entry.name, stem_of(entry.name), tar.substr(at, entry.bytes)});
    }
    at += (entry.bytes + kTarBlock - 1) / kTarBlock * kTarBlock;
  }
  if (texts.empty()) return unreadable(path, "the archive has no .csv files");
  std::sort(texts.begin(), texts.end(), [](const TraceText& a, const TraceText& b) { return a.path < b.path; });
  return texts;
}

bool is_tar(const std::string& text) {
  return text.size() >= kTarBlock && text.compare(257, 5, "ustar") == 0;
}

// "traces.tar.gz:cluster01.csv" into both; the second is empty if the whole path is a file.
std::pair<std::string, std::string> split_member(const std::string& path) {
  const std::size_t colon = path.rfind(':');
  std::error_code failed;
  if (colon == std::string::npos || std::filesystem::exists(path, failed)) return {path, ""};
  return {path.substr(0, colon), path};
}

}  // namespace

Result<std::string> read_bounded(const std::string& path) {
  return read_expanded(path);
}

Result<std::vector<TraceText>> read_trace_texts(const std::string& path) {
  if (std::error_code failed; std::filesystem::is_directory(path, failed)) {
    const auto folder = std::filesystem::path(path).lexically_normal();
    const bool of_cluster = std::filesystem::exists(folder / kClusterJournal, failed);
    const std::string file = (folder / (of_cluster ? kClusterJournal : "jobs.csv")).string();
    auto text = read_expanded(file);
    if (!text.ok()) return text.error();
    const auto name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
    return std::vector<TraceText>{{file, name.string(), std::move(*text)}};
  }
  const auto [file, member] = split_member(path);
  auto text = read_expanded(file);
  if (!text.ok()) return text.error();
  if (!is_tar(*text)) return std::vector<TraceText>{{path, stem_of(path), std::move(*text)}};
  auto all = members(file, *text);
  if (!all.ok() || member.empty()) return all;
  std::erase_if(*all, [&, &wanted = member](const TraceText& one) { return one.path != wanted; });
  if (all->empty()) return Error{ErrorCode::kNoInput, member + ": the archive has no such member"};
  return all;
}

namespace {

using heuristics::cluster::Trace;
using heuristics::cluster::TraceJob;

// Jobs without a model take these in turn.
constexpr std::array kDealt = {"bert@64", "deepspeech2@32", "gpt2@128", "inception3@64", "resnet50@256", "vgg16@256"};
constexpr std::uint32_t kMaxRequested = 64;

// A job with the file that it is from.
struct Sourced {
  RawJob raw;
  const RawTrace* from = nullptr;
};

std::string place_of(const Sourced& job) {
  return job.from->path + ":" + std::to_string(job.raw.line) + ":1";
}

Error wrong_job(const Sourced& job, const std::string& what) {
  return {ErrorCode::kInvalid, place_of(job) + ": job " + job.raw.job.id + ": " + what};
}

std::string known_curves(const Curves& curves) {
  if (curves.empty()) return "no curves were given; name them by --curves PATH";
  std::vector<std::string> names;
  for (const auto& [name, curve] : curves) names.push_back(name);
  constexpr std::size_t kListed = 20;
  if (names.size() > kListed) names.resize(kListed);
  return "known are " + join(names, ", ");
}

class Loader {
 public:
  Loader(const TraceOptions& options, LoadedTraces& out) : options_(options), out_(out) {}

  Status read(const std::vector<std::string>& paths) {
    for (const std::string& path : options_.curves) {
      if (const Status good = read_curves(path, curves_); !good.ok()) return good;
    }
    for (const std::string& path : paths) {
      if (const Status good = read_file(path); !good.ok()) return good;
    }
    return {};
  }

  Status make() {
    if (options_.merge) return make_trace("merged", all_of(files_), "");
    for (const RawTrace& file : files_) {
      if (const Status good = make_traces_of(file); !good.ok()) return good;
    }
    return {};
  }

 private:
  Status read_file(const std::string& path) {
    auto texts = read_trace_texts(path);
    if (!texts.ok()) return texts.error();
    for (const TraceText& text : *texts) {
      auto trace = read_format(text, options_.format);
      if (!trace.ok()) return trace.error();
      if (const Status good = read_curves_beside(*trace); !good.ok()) return good;
      out_.notes.insert(out_.notes.end(), trace->notes.begin(), trace->notes.end());
      files_.push_back(std::move(*trace));
    }
    return {};
  }

  Status read_curves_beside(const RawTrace& trace) {
    if (trace.format != "normalised" || !options_.curves.empty()) return {};
    const auto beside = std::filesystem::path(trace.path).parent_path() / "curves.csv";
    std::error_code failed;
    return std::filesystem::exists(beside, failed) ? read_curves(beside.string(), curves_) : Status();
  }

  std::vector<Sourced> all_of(const std::vector<RawTrace>& files) const {
    std::vector<Sourced> jobs;
    for (const RawTrace& file : files) {
      for (const RawJob& raw : file.jobs) jobs.push_back({raw, &file});
    }
    return jobs;
  }

  Status make_traces_of(const RawTrace& file) {
    std::vector<Sourced> jobs;
    for (const RawJob& raw : file.jobs) jobs.push_back({raw, &file});
    if (options_.vcs.empty()) return make_trace(file.name, std::move(jobs), "");
    for (const std::string& vc : options_.vcs) {
      std::vector<Sourced> part;
      std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(part),
                   [&](const Sourced& job) { return job.raw.vc == vc; });
      if (part.empty())
        return Error{ErrorCode::kInvalid, file.path + ": no job of the virtual cluster '" + vc + "' (--vc)"};
      if (const Status good = make_trace(file.name, std::move(part), vc); !good.ok()) return good;
    }
    return {};
  }

  Status make_trace(const std::string& name, std::vector<Sourced> jobs, const std::string& vc) {
    if (const Status good = check_ids(jobs); !good.ok()) return good;
    sort(name, jobs);
    if (options_.limit > 0 && jobs.size() > options_.limit) jobs.resize(options_.limit);
    LoadedTraces::One one;
    one.trace.name = name;
    one.trace.vc = vc;
    double slot_s = 0;
    for (std::size_t place = 0; place < jobs.size(); ++place) {
      if (const Status good = complete(jobs[place], place); !good.ok()) return good;
      TraceJob& job = jobs[place].raw.job;
      slot_s += jobs[place].raw.duration_s * job.requested;
      job.requested = std::min(job.requested, jobs[place].from->has_curves() ? kMaxRequested : job.requested);
      job.arrival_s /= options_.time_scale;
      job.work /= options_.time_scale;
      one.trace.elastic = one.trace.elastic && jobs[place].from->has_curves();
      one.trace.bounded = one.trace.bounded || jobs[place].from->bounded();
      one.trace.jobs.push_back(std::move(job));
    }
    const double span_s = (one.trace.jobs.back().arrival_s - one.trace.jobs.front().arrival_s) * options_.time_scale;
    one.demand_slots = span_s > 0 ? slot_s / span_s : 0;
    out_.traces.push_back(std::move(one));
    return {};
  }

  static Status check_ids(const std::vector<Sourced>& jobs) {
    std::unordered_set<std::string> seen;
    for (const Sourced& job : jobs) {
      if (!seen.insert(job.from->path + "\n" + job.raw.job.id).second)
        return wrong_job(job, "this job id is there twice");
    }
    return {};
  }

  void sort(const std::string& name, std::vector<Sourced>& jobs) {
    const auto earlier = [](const Sourced& a, const Sourced& b) { return a.raw.job.arrival_s < b.raw.job.arrival_s; };
    if (std::is_sorted(jobs.begin(), jobs.end(), earlier)) return;
    std::stable_sort(jobs.begin(), jobs.end(), earlier);
    if (!options_.merge) out_.notes.push_back(name + ": the rows are not in the order of arrival; they were sorted");
  }

  // Curve, work and duration, whatever of them the file lacks.
  Status complete(Sourced& sourced, std::size_t place) {
    RawJob& raw = sourced.raw;
    TraceJob& job = raw.job;
    if (sourced.from->dealt()) raw.curve_name = kDealt[place % kDealt.size()];
    if (!raw.curve_name.empty()) {
      const auto curve = curves_.find(raw.curve_name);
      if (curve == curves_.end())
        return wrong_job(sourced, "unknown curve '" + raw.curve_name + "'; " + known_curves(curves_));
      job.curve = curve->second;
    }
    if (const auto adapted = curves_.find(raw.adapted_curve_name); adapted != curves_.end()) {
      job.adapted = adapted->second;
    }
    const double rate = job.curve->as_is(std::min(job.requested, kMaxRequested));
    if (sourced.from->dealt()) job.work = raw.duration_s * rate;
    if (raw.duration_s == 0) raw.duration_s = job.work / rate;
    return {};
  }

  const TraceOptions& options_;
  LoadedTraces& out_;
  Curves curves_;
  std::vector<RawTrace> files_;
};

}  // namespace

const std::vector<std::string>& trace_format_names() {
  return format_names();
}

Result<LoadedTraces> load_traces(const std::vector<std::string>& paths, const TraceOptions& options) {
  LoadedTraces out;
  Loader loader(options, out);
  if (const Status good = loader.read(paths); !good.ok()) return good.error();
  if (const Status good = loader.make(); !good.ok()) return good.error();
  return out;
}

}  // namespace elastictrain::cli
