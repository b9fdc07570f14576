#include "cli/commands/clients/change_request.h"

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/config/checks.h"
#include "cli/config/text.h"
#include "cli/output/figures.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/journal_codec.h"

namespace elastictrain::cli {
namespace {

using Words = std::vector<std::string>;

Result<RunAndValue> checked(const Words& words, const ValueArgument& argument) {
  const std::string example = std::string(", e.g. ") + argument.example;
  if (words.empty()) return wrong_usage(argument.missing + example);
  if (words.size() > 2) {
    return wrong_usage("unexpected argument '" + words[2] + "'; write [NAME] " + argument.type + example);
  }
  const Status is_word = check_word(words.back());
  if (!is_word.ok()) return wrong_usage(is_word.error().message + "; " + argument.missing + example);
  return words.size() == 1 ? RunAndValue{"", words.front()} : RunAndValue{words.front(), words.back()};
}

}  // namespace

Command client_command(std::string name, std::string help, const ValueArgument& argument,
                       std::function<Status(const RunAndValue&)> use) {
  const auto given = std::make_shared<Words>();
  const auto choose = [given, argument, use = std::move(use)]() -> Status {
    const auto request = checked(*given, argument);
    return request.ok() ? use(*request) : request.error();
  };
  return {std::move(name),
          std::move(help),
          kGroupClient,
          {words("value", std::string("[NAME] ") + argument.type,
                 "name of the run, when several are live; " + argument.help, *given)},
          choose};
}

namespace {

using WaitClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{100};
constexpr std::uint64_t kNothingOld = 1;  // of the journal

struct Changed {
  std::string why_not;

  template <class R>
  void operator()(const R&) {}
  void operator()(const core::record::GivenUp& given_up) { why_not = given_up.reason; }
  void operator()(const core::record::TargetUnmet& unmet) { why_not = unmet.text; }
  void operator()(const core::record::ReplaceGivenUp&) {
    why_not = "no worker could be started in the place of the old one, which stays";
  }
  void operator()(const core::record::Ending& ending) { why_not = "the run ends: " + ending.reason; }
};

bool is_settled(const nlohmann::json& status) {
  // Whoever comes may still turn out to be somebody who cannot stay.
  const bool all_have_trained = status.value("new_members", 0) == 0;
  const bool has_its_size = status.value("world_size", 0) == status.value("target_size", -1);
  return status.value("phase", "") == "running" && has_its_size && all_have_trained;
}

std::set<int> members_of(const nlohmann::json& status) {
  std::set<int> ids;
  for (const auto& worker : status.value("workers", nlohmann::json::array())) {
    if (worker.value("phase", "") == "member") ids.insert(worker.value("id", 0));
  }
  return ids;
}

// Of a request for a rank or a host.
std::set<int> meant_by(const nlohmann::json& request, const nlohmann::json& before) {
  std::set<int> ids;
  for (const auto& worker : before.value("workers", nlohmann::json::array())) {
    const bool is_rank = request.contains("rank") && worker.contains("rank") && worker["rank"] == request["rank"];
    const bool on_host = request.contains("host") && worker.value("host", "") == request["host"];
    if (is_rank || on_host) ids.insert(worker.value("id", 0));
  }
  return ids;
}

Status wait_for(const std::string& directory, FileFollower& journal, const IsDone& done, std::uint64_t timeout_ms) {
  const auto deadline = WaitClock::now() + std::chrono::milliseconds(timeout_ms);
  Changed changed;
  while (WaitClock::now() < deadline) {
    const auto answer = ask_run(directory, {{"command", "status"}});
    if (!answer.ok()) return answer.error();
    if (done(answer->value("status", nlohmann::json::object()))) return {};
    journal.read_lines([&](std::string_view line) {
      const auto decoded = decode_journal_line(line);
      if (decoded && decoded->record) decoded->record->visit(changed);
    });
    if (!changed.why_not.empty()) return Error{ErrorCode::kRefused, changed.why_not};
    std::this_thread::sleep_for(kLookEvery);
  }
  return Error{ErrorCode::kTimeout, "the change was not complete within " +
                                        format_duration(static_cast<double>(timeout_ms) / 1e3) +
                                        "; it goes on: elastictrain status"};
}

}  // namespace

std::vector<Argument> wait_arguments(WaitFlags& flags, const char* help) {
  const auto timeout = [&flags](const std::string& text) -> Status {
    const auto duration = parse_duration_ms(text);
    if (!duration.ok()) return wrong_usage("--timeout: " + duration.error().message);
    flags.timeout_ms = *duration;
    return {};
  };
  return {flag("--wait", help, flags.wait),
          value("--timeout", "DURATION", "with --wait: how long at most (30s, 10m); default 10m", timeout)};
}

IsDone is_done(const nlohmann::json& request, const nlohmann::json& before) {
  if (request.contains("workers")) {
    const auto wanted = request["workers"].get<std::uint64_t>();
    return [wanted](const nlohmann::json& status) {
      return is_settled(status) && (wanted == 0 || status.value("world_size", 0ULL) == wanted);
    };
  }
  return [meant = meant_by(request, before)](const nlohmann::json& status) {
    const std::set<int> now = members_of(status);
    for (const int id : meant) {
      if (now.contains(id)) return false;
    }
    return is_settled(status);
  };
}

int ask_and_wait(const std::string& run_name, const nlohmann::json& request, const WaitFlags& flags) {
  if (!flags.wait) return ask_and_print(run_name, request);
  const std::string command = request["command"];
  const auto directory = find_live_run(run_name);
  if (!directory.ok()) return complain(command, directory.error());
  const auto before = ask_run(*directory, {{"command", "status"}});
  if (!before.ok()) return complain(command, before.error());
  FileFollower journal(*directory + "/" + control::kJournalName, kNothingOld);
  const int asked = ask_and_print(run_name, request);
  if (asked != kExitSuccess) return asked;
  const Status waited = wait_for(*directory, journal,
                                 is_done(request, before->value("status", nlohmann::json::object())), flags.timeout_ms);
  return waited.ok() ? kExitSuccess : complain(command, waited.error());
}

}  // namespace elastictrain::cli
