#include "cli/commands/known_runs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/config/text.h"
#include "cli/output/figures.h"
#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_directory.h"
#include "supervisor/run_place.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {
namespace {

// A run that is stopped or overloaded does not keep the others from being listed.
constexpr Millis kAnswerTimeout{2000};

// Null where it is no number.
void add_loss(ListedRun& run, const nlohmann::json& status) {
  const auto loss = status.find("loss");
  if (loss != status.end() && loss->is_number() && is_reported(loss->get<double>())) run.loss = loss->get<double>();
}

void add_status(ListedRun& run, const std::string& directory) {
  const auto answer = control::ask(directory, R"({"command":"status"})", kAnswerTimeout);
  const nlohmann::json parsed = answer.ok() ? parse_json(*answer) : nlohmann::json();
  const auto status = parsed.find("status");
  run.state = "does not answer";
  if (!parsed.is_object() || status == parsed.end() || !status->is_object()) return;
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  run.state = status->value("phase", "unknown");
  run.workers = status->value("world_size", std::uint64_t{0});
  run.epoch = status->value("epoch", std::uint64_t{0});
  run.step = status->value("step", std::uint64_t{0});
  add_loss(run, *status);
  run.started_unix_s = now - status->value("uptime_s", 0.0);
}

void add_end(ListedRun& run, const RunRecord::End& end) {
  run.state = "ended";
  run.exit_status = end.exit_status;
  run.reason = end.reason;
  if (end.ended_unix_s == 0) return;  // written by an older version
  run.workers = end.workers;
  run.epoch = end.epoch;
  run.step = end.step;
  if (is_reported(end.loss)) run.loss = end.loss;
  run.ended_unix_s = end.ended_unix_s;
  run.started_unix_s = end.ended_unix_s - end.uptime_s;
}

// A directory that cannot be looked into belongs to another user, who is to be seen in a list.
bool is_run(const std::filesystem::path& directory) {
  if (!check_run_name(directory.filename()).ok()) return false;
  std::error_code unknown;
  const bool has_journal = std::filesystem::exists(directory / control::kJournalName, unknown);
  return has_journal || unknown == std::errc::permission_denied;
}

}  // namespace

ListedRun run_in(const std::string& directory) {
  ListedRun run;
  run.name = std::filesystem::path(directory).filename();
  if (control::is_live(directory)) {
    add_status(run, directory);
    return run;
  }
  const auto record = load_run_record(directory);
  run.state = record.ok() ? "no supervisor" : "unreadable";
  if (record.ok() && record->end) {
    add_end(run, *record->end);
  } else if (const auto place = supervisor_elsewhere(directory)) {
    run.state = "on " + place->host;
  }
  return run;
}

Result<std::vector<ListedRun>> known_runs() {
  const auto state = state_directory();
  if (!state.ok()) return state.error();
  std::vector<ListedRun> runs;
  for (const std::string& name : run_names(*state)) runs.push_back(run_in(*state + "/" + name));
  sort_runs(runs);
  return runs;
}

std::vector<std::string> run_names(const std::string& state_directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(state_directory, failed)) {
    if (is_run(entry.path())) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string meant_run(const std::string& name, const std::string& state_directory) {
  const auto near = closest(name, run_names(state_directory));
  return near ? "; did you mean " + *near + "?" : "";
}

}  // namespace elastictrain::cli
