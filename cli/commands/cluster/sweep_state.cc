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
#include <utility>

#include "cli/config/text.h"
#include "cli/output/event_text.h"
#include "cli/output/run_log.h"
#include "cli/output/whole_file.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

constexpr std::size_t kLongestLine = 4096;  // of the output; std::regex recurses over what it looks at

double number_in(std::string_view text) {
  return parse_number(trim(text)).value_or(std::numeric_limits<double>::quiet_NaN());
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

namespace {

void take_line(const nlohmann::json& line, std::map<std::string, KnownReports>& all) {
  KnownReports& known = all[line.at("trial").get<std::string>()];
  known.values.resize(std::min(known.values.size(), line.at("first").get<std::size_t>()));
  for (const auto& value : line.at("values")) {
    known.values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  known.place = {line.at("offset").get<std::uint64_t>(), line.at("line_bytes").get<std::uint64_t>(),
                 line.at("line_hash").get<std::uint64_t>()};
}

}  // namespace

std::map<std::string, KnownReports> SweepReportFile::read() const {
  std::map<std::string, KnownReports> all;
  std::ifstream file(path_);
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json line = parse_json(text);
    try {
      if (line.is_object()) take_line(line, all);
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
  return all;
}

Status SweepReportFile::add(const std::string& trial, std::size_t first, const KnownReports& known) const {
  nlohmann::json values = nlohmann::json::array();
  for (std::size_t i = first; i < known.values.size(); ++i) {
    values.push_back(std::isnan(known.values[i]) ? nlohmann::json() : nlohmann::json(known.values[i]));
  }
  const nlohmann::json line = {{"trial", trial},
                               {"first", first},
                               {"values", std::move(values)},
                               {"offset", known.place.offset},
                               {"line_bytes", known.place.line_bytes},
                               {"line_hash", known.place.line_hash}};
  std::ofstream file(path_, std::ios::app);
  file << json_text(line) + "\n" << std::flush;
  if (file) return {};
  return Error{ErrorCode::kIo, "cannot write " + path_ + ": " + std::strerror(errno)};
}

namespace {

Error other_trials(const std::string& path) {
  return {ErrorCode::kRefused, "a sweep of this name has other trials: choose another name, or remove " + path};
}

bool take(const nlohmann::json& kept, const SweepTrial& planned, TrialState& state) {
  if (!kept.is_object() || kept.value("name", "") != planned.name || !kept.contains("words") ||
      kept["words"] != nlohmann::json(planned.words))
    return false;
  state.begun_unix_s = kept.value("begun_unix_s", 0.0);
  state.is_submitted = kept.value("submitted", false);
  state.refused = kept.value("refused", "");
  state.stopped = kept.value("stopped", "");
  if (kept.contains("status")) state.status = kept.value("status", 0);
  return true;
}

Status take_all(const std::string& path, const std::vector<SweepTrial>& planned, std::vector<TrialState>& trials) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const nlohmann::json kept = parse_json(text);
  if (!kept.is_object() || !kept.contains("trials") || !kept["trials"].is_array())
    return Error{ErrorCode::kInvalid, path + " is no file of a sweep; remove it to begin anew"};
  if (kept["trials"].size() != planned.size()) return other_trials(path);
  for (std::size_t i = 0; i < planned.size(); ++i) {
    try {
      if (!take(kept["trials"][i], planned[i], trials[i])) return other_trials(path);
    } catch (const nlohmann::json::exception&) {
      return Error{ErrorCode::kInvalid, path + " is damaged; remove it to begin anew"};
    }
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
  nlohmann::json kept = {{"trials", nlohmann::json::array()}};
  for (std::size_t i = 0; i < planned_.size(); ++i) {
    nlohmann::json one = {
        {"name", planned_[i].name}, {"words", planned_[i].words}, {"submitted", trials[i].is_submitted}};
    if (trials[i].begun_unix_s > 0) one["begun_unix_s"] = trials[i].begun_unix_s;
    if (!trials[i].refused.empty()) one["refused"] = trials[i].refused;
    if (!trials[i].stopped.empty()) one["stopped"] = trials[i].stopped;
    if (trials[i].status) one["status"] = *trials[i].status;
    kept["trials"].push_back(std::move(one));
  }
  std::string text = json_text(kept, 1) + "\n";
  if (text == written_) return {};
  if (const std::error_code failed = write_whole_file(path_, text))
    return Error{ErrorCode::kIo, "cannot write " + path_ + ": " + failed.message()};
  written_ = std::move(text);
  return {};
}

}  // namespace elastictrain::cli
