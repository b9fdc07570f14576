#include "cli/commands/run_client.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>
#include <variant>

#include "cli/commands/exit_code.h"
#include "cli/config/text.h"
#include "cli/output/event_text.h"
#include "cli/output/figures.h"
#include "cli/output/printable.h"
#include "cli/output/summary.h"
#include "supervisor/control/control_client.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/journal_history.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_directory.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {

Result<std::string> summary_of_ended(const std::string& directory, const RunRecord& record) {
  Summary summary;
  RunFigures figures;
  figures.view.run_name = record.run_name;
  summary.add_figures(figures);
  const auto history = read_journal_history(directory + "/" + control::kJournalName,
                                            [&](const core::Record& entry) { summary.add_record(entry); });
  if (!history.ok()) return history.error();
  figures.uptime_s = history->up_s;
  summary.add_figures(figures);
  std::string text = summary.render(record.end ? record.end->exit_status : 0);
  if (record.end && record.end->can_continue)
    text += "  continue with: elastictrain run --resume " + record.run_name + "\n";
  return text;
}

std::string how_it_ended(const RunRecord& record) {
  const RunRecord::End& end = *record.end;
  std::string text =
      "run " + record.run_name + " has ended: " + end.reason + " (status " + std::to_string(end.exit_status) + ")";
  if (end.ended_unix_s == 0) return text;  // written by an older version
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (now >= end.ended_unix_s) text += ", " + format_duration(now - end.ended_unix_s) + " ago";
  return text + " (" + local_time_text(static_cast<std::time_t>(end.ended_unix_s)) + ")";
}

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

Error lost_supervisor(const std::string& name) {
  return {ErrorCode::kUnavailable,
          "run " + name + " has lost its supervisor; take it over with: elastictrain run --resume " + name};
}

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

// What a person may do with a run that has ended.
std::string after_the_end(const RunRecord& record) {
  const std::string& name = record.run_name;
  return "; its summary: elastictrain status " + name +
         (record.end->can_continue ? "; continue it with: elastictrain run --resume " + name : "");
}

Error denied_run(const std::string& name, const std::string& state) {
  return {ErrorCode::kDenied, "run " + name + " under " + state +
                                  " belongs to another user; set ELASTICTRAIN_STATE_DIR to a directory that you own"};
}

bool is_denied(const std::string& directory) {
  return ::access(directory.c_str(), X_OK) != 0 && errno == EACCES;
}

Error no_live_run_named(const std::string& name, const std::string& state, const std::vector<std::string>& live) {
  const std::string directory = state + "/" + name;
  if (is_denied(directory)) return denied_run(name, state);
  const auto record = load_run_record(directory);
  if (record.ok() && record->end) return {ErrorCode::kUnavailable, how_it_ended(*record) + after_the_end(*record)};
  if (record.ok()) {
    if (const auto place = supervisor_elsewhere(directory))
      return {ErrorCode::kUnavailable, describe_elsewhere(name, *place)};
    return lost_supervisor(name);
  }
  std::string text = "no live run is named " + name + meant_run(name, state) + "; elastictrain list names all";
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

Error no_live_run(const std::string& state) {
  if (const auto far = elsewhere(state); !far.empty()) {
    return {ErrorCode::kUnavailable, "no run is live on this machine; " + join(far, "; ")};
  }
  if (const auto lost = without_supervisor(state); !lost.empty()) {
    return {ErrorCode::kUnavailable, "no run has a supervisor; " + join(lost, ", ") +
                                         " lost it and may still train; take it over with: elastictrain run --resume " +
                                         lost.front()};
  }
  std::string text = "no run is live; start one with: elastictrain run config.toml";
  const auto last = load_run_record(newest_journal(state));
  if (last.ok() && last->end) text += "; the last one: " + how_it_ended(*last);
  return {ErrorCode::kUnavailable, text};
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
                                       : Result<std::string>(no_live_run_named(name, *state, live));
  }
  if (live.empty()) return no_live_run(*state);
  if (live.size() == 1) return *state + "/" + live.front();
  return Error{ErrorCode::kUnavailable, "several runs are live, name one: " + join(live, ", ")};
}

Result<std::string> find_run(const std::string& name) {
  const auto state = state_directory();
  if (!state.ok()) return state.error();
  if (!name.empty()) {
    if (const Status good = check_run_name(name); !good.ok()) return good.error();
    std::string directory = *state + "/" + name;
    std::error_code unknown;
    if (std::filesystem::exists(directory + "/" + control::kJournalName, unknown)) return directory;
    if (is_denied(directory)) return denied_run(name, *state);
    return Error{ErrorCode::kUnavailable, "no run is named " + name + " under " + *state + meant_run(name, *state) +
                                              "; elastictrain list names all"};
  }
  auto live = find_live_run("");
  if (live.ok() || !control::list_runs(*state).empty()) return live;
  std::string newest = newest_journal(*state);
  if (newest.empty()) return Error{ErrorCode::kUnavailable, "no run was found under " + *state};
  return newest;
}

namespace {

constexpr int kLooksAtTheEnd = 40;
constexpr std::chrono::milliseconds kBetweenLooks{50};

// The rule that the last supervisor has found broken. Nothing: it has ended otherwise.
std::optional<std::string> rule_that_ended(const std::string& directory) {
  std::optional<std::string> rule;
  const auto is_last = [&rule](std::string_view line) {
    rule.reset();
    return line.find("\"invariant_broken\"") != std::string_view::npos;
  };
  const auto take = [&rule](const JournalLine& line) {
    if (!line.record) return;
    if (const auto* broken = line.record->as<core::record::InvariantBroken>()) rule = broken->what;
  };
  (void)read_journal_lines(directory + "/" + control::kJournalName, take, is_last);
  return rule;
}

// Why a run that took the request gave no answer, as its directory says once its process is gone.
Error why_unanswered(const std::string& directory, const Error& closed) {
  for (int look = 0; look < kLooksAtTheEnd && RunDirectory::is_held(directory); ++look) {
    if (control::is_live(directory)) return closed;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  if (RunDirectory::is_held(directory) || !has_lost_supervisor(directory)) return closed;
  const std::string name = std::filesystem::path(directory).filename();
  if (const auto rule = rule_that_ended(directory)) {
    return {ErrorCode::kInternal, "internal error: " + *rule + ". The supervisor of run " + name +
                                      " has ended for it; nothing of this request was carried out, and the workers "
                                      "train on. Take it over with: elastictrain run --resume " +
                                      name};
  }
  return lost_supervisor(name);
}

}  // namespace

Result<nlohmann::json> ask_run(const std::string& directory, const nlohmann::json& request, Millis timeout) {
  const auto answer = control::ask(directory, json_text(request), timeout);
  if (!answer.ok() && answer.error().code == ErrorCode::kPeerLost) return why_unanswered(directory, answer.error());
  if (!answer.ok()) return answer.error();
  nlohmann::json parsed = parse_json(*answer);
  if (!parsed.is_object() || !parsed.contains("ok"))
    return Error{ErrorCode::kMismatch,
                 "the run sent a malformed answer: is it one of another version of elastictrain?"};
  if (parsed["ok"] == true) return parsed;
  return Error{ErrorCode::kRefused, printable(parsed.value("text", "the run refused without a reason"), Lines::kOne)};
}

int complain(std::string_view command, const Error& error) {
  std::cerr << "elastictrain " << command << ": " << error.message << "\n";
  return status_of_refusal(error);
}

int status_of_refusal(const Error& error) {
  switch (error.code) {
    case ErrorCode::kRefused:
      return kExitFailure;
    case ErrorCode::kInvalid:
      return kExitUsage;
    case ErrorCode::kNoInput:
      return kExitNoInput;
    case ErrorCode::kMismatch:
      return kExitProtocol;
    case ErrorCode::kDenied:
      return kExitNoPermission;
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
