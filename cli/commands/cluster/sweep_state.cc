#include "cli/commands/cluster/sweep_state.h"

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/config/text.h"
#include "cli/output/event_text.h"
#include "cli/output/run_log.h"
#include "cli/output/whole_file.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/protocol/json_fields.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLongestLine = 4096;  // of the output; std::regex recurses over what it looks at

double number_in(std::string_view text) {
  return parse_number(trim(text)).value_or(kNoNumber);
}

}  // namespace

SweepReports::SweepReports(const SweepFile& file) : metric_(file.metric) {
  if (!file.pattern.empty()) pattern_ = std::regex(file.pattern);
}

void SweepReports::restore(KnownReports known) {
  values_ = std::move(known.values);
  restored_ = std::move(known.place);
}

bool SweepReports::read(const std::string& run_directory) {
  if (!follower_ && pattern_) {
    follower_.emplace(kept_log_path(run_directory), older_kept_log_path(run_directory), restored_);
  } else if (!follower_) {
    follower_.emplace(run_directory + "/" + control::kJournalName, "", restored_);
  }
  bool is_anew = false;
  follower_->read_lines([this](std::string_view line) { pattern_ ? take_output(line) : take_event(line); },
                        [&] {
                          values_.clear();
                          is_anew = true;
                        });
  return is_anew;
}

void SweepReports::take_event(std::string_view line) {
  if (event_name(line) != "note") return;
  const nlohmann::json about = parse_json(line);
  if (!about.is_object()) return;
  const auto key = about.find("key"), value = about.find("value");
  if (key == about.end() || value == about.end() || *key != metric_ || !value->is_string()) return;
  values_.push_back(number_in(value->get<std::string>()));
}

void SweepReports::take_output(std::string_view line) {
  const auto kept = read_kept_line(line);
  if (!kept || kept->is_of_run() || kept->rank != "0") return;
  std::match_results<std::string_view::const_iterator> match;
  const std::string_view text = kept->text.substr(0, kLongestLine);
  if (!std::regex_search(text.begin(), text.end(), match, *pattern_) || !match[1].matched) return;
  values_.push_back(number_in(match[1].str()));
}

// A line of the file of reports.
struct ReportLine {
  std::string trial;
  std::size_t first = 0;                      // of the values of this line among all of the trial
  std::vector<std::optional<double>> values;  // nothing: it was no number
  LogFollower::Place place;
};

template <class Io, json_fields::Of<ReportLine> T>
void each_field(Io& io, T& line) {
  io("trial", line.trial);
  io("first", line.first);
  io("values", line.values);
  io("offset", line.place.offset);
  io("line_bytes", line.place.line_bytes);
  io("line_hash", line.place.line_hash);
}

namespace {

void take_line(const ReportLine& line, std::map<std::string, KnownReports>& all) {
  KnownReports& known = all[line.trial];
  known.values.resize(std::min(known.values.size(), line.first));
  for (const auto& value : line.values) known.values.push_back(value.value_or(kNoNumber));
  known.place = line.place;
}

}  // namespace

std::map<std::string, KnownReports> SweepReportFile::read() const {
  std::map<std::string, KnownReports> all;
  std::ifstream file(path_);
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json object = parse_json(text);
    if (!object.is_object()) continue;
    ReportLine line;
    std::string problem;
    json_fields::Reader(object, "", problem).fields(line);
    if (problem.empty()) take_line(line, all);
  }
  return all;
}

Status SweepReportFile::add(const std::string& trial, std::size_t first, const KnownReports& known) const {
  ReportLine line{trial, first, {}, known.place};
  for (std::size_t i = first; i < known.values.size(); ++i) {
    const double value = known.values[i];
    line.values.push_back(std::isnan(value) ? std::nullopt : std::optional(value));
  }
  std::ofstream file(path_, std::ios::app);
  file << json_text(json_fields::json_of(line)) + "\n" << std::flush;
  if (file) return {};
  return Error{ErrorCode::kIo, "cannot write " + path_ + ": " + std::strerror(errno)};
}

struct KeptTrial {
  std::string name;
  std::vector<std::string> words;
  TrialState state;
};
struct KeptSweep {
  std::vector<KeptTrial> trials;
};

template <class Io, json_fields::Of<KeptTrial> T>
void each_field(Io& io, T& trial) {
  using json_fields::kUnlessZero;
  io("name", trial.name);
  io("words", trial.words);
  io("submitted", trial.state.is_submitted, json_fields::kOptional);
  io("begun_unix_s", trial.state.begun_unix_s, kUnlessZero);
  io("refused", trial.state.refused, kUnlessZero);
  io("stopped", trial.state.stopped, kUnlessZero);
  io("status", trial.state.status, kUnlessZero);
}

template <class Io, json_fields::Of<KeptSweep> T>
void each_field(Io& io, T& sweep) {
  io("trials", sweep.trials);
}

namespace {

Error other_trials(const std::string& path) {
  return {ErrorCode::kRefused, "a sweep of this name has other trials: choose another name, or remove " + path};
}

Status take_all(const std::string& path, const std::vector<SweepTrial>& planned, std::vector<TrialState>& trials) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const nlohmann::json object = parse_json(text);
  if (!object.is_object() || !object.contains("trials"))
    return Error{ErrorCode::kInvalid, path + " is no file of a sweep; remove it to begin anew"};
  KeptSweep kept;
  std::string problem;
  json_fields::Reader(object, "", problem).fields(kept);
  if (!problem.empty())
    return Error{ErrorCode::kInvalid, path + " is damaged: " + problem + "; remove it to begin anew"};
  if (kept.trials.size() != planned.size()) return other_trials(path);
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const KeptTrial& one = kept.trials[i];
    if (one.name != planned[i].name || one.words != planned[i].words) return other_trials(path);
    trials[i] = one.state;
  }
  return {};
}

// Their reports would be taken for those of the trials.
Status check_names_are_free(const std::vector<SweepTrial>& planned, const std::string& state_directory) {
  for (const SweepTrial& trial : planned) {
    std::error_code unknown;
    if (!std::filesystem::exists(state_directory + "/" + trial.name + "/" + control::kJournalName, unknown)) continue;
    return Error{ErrorCode::kRefused, "there is a run " + trial.name +
                                          " already, which is none of this sweep: choose another name for the sweep, "
                                          "or remove ended runs (elastictrain prune)"};
  }
  return {};
}

}  // namespace

SweepState::SweepState(std::string path, std::vector<SweepTrial> planned)
    : trials(planned.size()), path_(std::move(path)), planned_(std::move(planned)) {}

Result<SweepState> SweepState::open(const SweepFile& file, const std::vector<SweepTrial>& trials) {
  const auto directory = state_directory();
  if (!directory.ok()) return directory.error();
  SweepState state(*directory + "/sweeps/" + file.name + ".json", trials);
  std::error_code failed;
  if (std::filesystem::exists(state.path_, failed)) {
    if (Status taken = take_all(state.path_, trials, state.trials); !taken.ok()) return taken.error();
    return state;
  }
  if (Status free = check_names_are_free(trials, *directory); !free.ok()) return free.error();
  std::filesystem::create_directories(*directory + "/sweeps", failed);
  std::filesystem::remove(state.reports_path(), failed);  // of an earlier sweep
  if (Status saved = state.save(); !saved.ok()) return saved.error();
  return state;
}

// NAME.json, NAME.reports.jsonl.
std::string SweepState::reports_path() const {
  return std::filesystem::path(path_).replace_extension("reports.jsonl");
}

Status SweepState::save() {
  KeptSweep kept;
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    kept.trials.push_back({planned_[i].name, planned_[i].words, trials[i]});
  }
  std::string text = json_text(json_fields::json_of(kept), 1) + "\n";
  if (text == written_) return {};
  if (const std::error_code failed = write_whole_file(path_, text))
    return Error{ErrorCode::kIo, "cannot write " + path_ + ": " + failed.message()};
  written_ = std::move(text);
  return {};
}

}  // namespace elastictrain::cli
