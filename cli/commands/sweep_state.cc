#include "cli/commands/sweep_state.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/output/whole_file.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
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
