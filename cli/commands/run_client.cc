#include "cli/commands/run_client.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_directory.h"
#include "supervisor/run_place.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {
namespace {

// Its workers may still train, until their orphan grace is over.
bool has_lost_supervisor(const std::string& directory) {
  const auto record = load_run_record(directory);
  return record.ok() && !record->end;
}

std::vector<std::string> without_supervisor(const std::string& state) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(state, failed)) {
    if (has_lost_supervisor(entry.path())) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A sentence for each run whose supervisor is on another machine.
std::vector<std::string> elsewhere(const std::string& state) {
  std::vector<std::string> sentences;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(state, failed)) {
    const auto place = supervisor_elsewhere(entry.path());
    if (place && has_lost_supervisor(entry.path()))
      sentences.push_back(describe_elsewhere(entry.path().filename(), *place));
  }
  std::sort(sentences.begin(), sentences.end());
  return sentences;
}

Error no_run(const std::string& name, const std::string& state, const std::vector<std::string>& live) {
  if (!name.empty() && has_lost_supervisor(state + "/" + name)) {
    if (const auto place = supervisor_elsewhere(state + "/" + name))
      return {ErrorCode::kUnavailable, describe_elsewhere(name, *place)};
    return {ErrorCode::kUnavailable,
            "run " + name + " has lost its supervisor; take it over with: elastictrain run " + "--resume " + name};
  }
  if (const auto far = name.empty() ? elsewhere(state) : std::vector<std::string>(); !far.empty()) {
    return {ErrorCode::kUnavailable, "no run is live on this machine; " + join(far, "; ")};
  }
  if (const auto lost = name.empty() ? without_supervisor(state) : std::vector<std::string>(); !lost.empty()) {
    return {ErrorCode::kUnavailable, "no run has a supervisor; " + join(lost, ", ") +
                                         " lost it and may still train; take it over with: elastictrain run --resume " +
                                         lost.front()};
  }
  std::string text = name.empty() ? "no run is live; start one with: elastictrain run config.toml"
                                  : "no live run is named " + name + "; elastictrain list names all";
  if (!live.empty()) text += "; live: " + join(live, ", ");
  return {ErrorCode::kUnavailable, text};
}

std::string newest_journal(const std::string& state) {
  std::string newest;
  std::filesystem::file_time_type newest_time{};
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(state, failed)) {
    const auto time = std::filesystem::last_write_time(entry.path() / control::kJournalName, failed);
    if (failed || (!newest.empty() && time <= newest_time)) continue;
    newest = entry.path().string();
    newest_time = time;
  }
  return newest;
}

}  // namespace

Result<std::string> find_live_run(const std::string& name) {
  const auto state = state_directory();
  if (!state.ok()) return state.error();
  const std::vector<std::string> live = control::list_runs(*state);
  if (!name.empty()) {
    if (const Status good = check_run_name(name); !good.ok()) return good.error();
    const std::string directory = *state + "/" + name;
    return control::is_live(directory) ? Result<std::string>(directory)
                                       : Result<std::string>(no_run(name, *state, live));
  }
  if (live.empty()) return no_run(name, *state, live);
  if (live.size() == 1) return *state + "/" + live.front();
  return Error{ErrorCode::kUnavailable, "several runs are live, name one: " + join(live, ", ")};
}

Result<std::string> find_run(const std::string& name) {
  const auto state = state_directory();
  if (!state.ok()) return state.error();
  if (!name.empty()) {
    if (const Status good = check_run_name(name); !good.ok()) return good.error();
    std::string directory = *state + "/" + name;
    if (std::filesystem::exists(directory + "/" + control::kJournalName)) return directory;
    return Error{ErrorCode::kUnavailable,
                 "no run is named " + name + " under " + *state + "; elastictrain list names all"};
  }
  auto live = find_live_run("");
  if (live.ok() || !control::list_runs(*state).empty()) return live;
  std::string newest = newest_journal(*state);
  if (newest.empty()) return Error{ErrorCode::kUnavailable, "no run was found under " + *state};
  return newest;
}

Result<nlohmann::json> ask_run(const std::string& directory, const nlohmann::json& request, Millis timeout) {
  const auto answer = control::ask(directory, json_text(request), timeout);
  if (!answer.ok()) return answer.error();
  nlohmann::json parsed = parse_json(*answer);
  if (!parsed.is_object() || !parsed.contains("ok"))
    return Error{ErrorCode::kInternal, "the run sent a malformed answer"};
  if (parsed["ok"] == true) return parsed;
  return Error{ErrorCode::kRefused, parsed.value("text", "the run refused without a reason")};
}

int complain(std::string_view command, const Error& error) {
  std::cerr << "elastictrain " << command << ": " << error.message << "\n";
  switch (error.code) {
    case ErrorCode::kRefused:
      return kExitFailure;
    case ErrorCode::kInvalid:
      return kExitUsage;
    case ErrorCode::kNoInput:
      return kExitNoInput;
    case ErrorCode::kInternal:
      return kExitInternal;
    default:
      return kExitUnavailable;
  }
}

namespace {

// For a request about a host that the run does not have.
std::string meant_host(const std::string& directory, const std::string& host) {
  const auto answer = ask_run(directory, {{"command", "status"}});
  if (!answer.ok() || !answer->contains("status")) return "";
  std::vector<std::string> hosts;
  for (const nlohmann::json& known : (*answer)["status"].value("hosts", nlohmann::json::array())) {
    hosts.push_back(known.value("host", ""));
  }
  if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) return "";
  const auto near = closest(host, hosts);
  return near ? "; did you mean " + *near + "?" : "";
}

}  // namespace

int ask_and_print(const std::string& run_name, const nlohmann::json& request) {
  const std::string command = request["command"];
  const auto directory = find_live_run(run_name);
  if (!directory.ok()) return complain(command, directory.error());
  const auto answer = ask_run(*directory, request);
  if (!answer.ok()) {
    Error error = answer.error();
    const std::string host = request.value("host", "");
    if (error.code == ErrorCode::kRefused && !host.empty()) error.message += meant_host(*directory, host);
    return complain(command, error);
  }
  const std::string text = answer->value("text", "");
  if (!text.empty()) std::cout << text << "\n";
  return kExitSuccess;
}

}  // namespace elastictrain::cli
