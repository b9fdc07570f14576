// `elastictrain explain`: what a run's policy saw and decided. Replays the journal through the same policy, another
// policy or other thresholds, and shows where the decisions differ.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands/cluster_client.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run/resume.h"
#include "cli/commands/run/run_settings.h"
#include "cli/commands/run_client.h"
#include "cli/commands/run_flags.h"
#include "cli/config/load.h"
#include "cli/output/event_text.h"
#include "cli/output/explanation.h"
#include "cli/output/file_follow.h"
#include "cli/output/printable.h"
#include "supervisor/control/control_protocol.h"
#include "supervisor/journal_history.h"
#include "supervisor/policy/replay.h"
#include "supervisor/policy/view_json.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

struct ExplainFlags {
  std::string name;
  std::string cluster;
  std::string journal;
  std::string policy;
  std::vector<Setting> settings;
  bool all = false;
  bool json = false;
};

// Its relative paths start at the directory where the run was started, so this changes to it.
std::optional<RunConfig> recorded_config(const std::string& directory) {
  auto recorded = find_recorded(directory);
  if (!recorded) return std::nullopt;
  std::error_code gone;
  std::filesystem::current_path(recorded->directory, gone);
  return std::move(recorded->config);
}

Explained explained_of(const heuristics::ClusterView& view, const heuristics::JobDecision& now) {
  Explained one;
  one.up_s = view.now_s;
  one.workers = view.jobs.front().workers;
  one.now_wants = now.workers.value_or(view.jobs.front().target);
  one.run_target = view.jobs.front().target;
  for (const auto& replacement : now.replacements) one.now_replaces.push_back(replacement.worker);
  one.now_reason = now.reason.text;
  one.now_code = now.reason.code;
  return one;
}

std::string length_text(const heuristics::JobView& job) {
  if (!job.expected_length) return expected_length_text(std::nullopt, job.no_expected_length);
  return expected_length_text(std::pair(job.expected_length->samples, job.expected_length->error),
                              job.no_expected_length);
}

class Story {
 public:
  explicit Story(policy::Replay& replay) : replay_(replay) {}

  void take(const core::Record& record, double up_s) {
    if (const auto* observed = record.as<core::record::Observed>()) on(*observed);
    if (const auto* decided = record.as<core::record::Decided>()) on(*decided);
    if (const auto* commit = record.as<core::record::Commit>()) on(*commit, up_s);
  }
  const std::vector<Explained>& found() const { return found_; }
  // Of a run that does not say how long it trains, by the last view; empty: it says it, or reports no loss.
  const std::string& length() const { return length_; }

 private:
  void on(const core::record::Observed& observed) {
    const auto view = policy::view_from_json(observed.view.text);
    if (!view.ok() || view->jobs.size() != 1) return;
    length_ = length_text(view->jobs.front());
    const auto decision = replay_.decide(*view);
    if (decision.jobs.size() != 1) return;
    last_view_ = found_.size();
    found_.push_back(explained_of(*view, decision.jobs.front()));
    found_.back().run_reason = run_reason_;
    found_.back().run_code = run_code_;
  }

  void on(const core::record::Decided& decided) {
    if (!last_view_) return;
    Explained& last = found_[*last_view_];
    run_reason_ = last.run_reason = decided.reason;
    run_code_ = last.run_code = decided.code;
    last.is_decision = true;
    last.run_numbers.assign(decided.numbers.begin(), decided.numbers.end());
    last.run_target = decided.workers.value_or(last.run_target);
    if (decided.replace)
      last.run_replaced.insert(last.run_replaced.end(), decided.replace->begin(), decided.replace->end());
  }

  // Its reason ends with that of the policy where that decided.
  void on(const core::record::Commit& commit, double up_s) {
    const auto before = std::exchange(size_, static_cast<std::uint32_t>(commit.world_size));
    if (!run_reason_.empty() && commit.reason.ends_with(run_reason_)) return;
    Explained& change = found_.emplace_back();
    change.up_s = up_s;
    change.workers = before;
    change.run_target = change.now_wants = size_;
    change.run_reason = commit.reason;
    change.is_decision = change.is_change = true;
  }

  policy::Replay& replay_;
  std::uint32_t size_ = 0;
  std::optional<std::size_t> last_view_;
  std::vector<Explained> found_;
  std::string run_reason_;
  std::string run_code_;
  std::string length_;
};

Result<RunConfig> chosen_config(const ExplainFlags& flags, const std::string& directory) {
  ConfigInputs inputs;
  inputs.starts_nothing = true;
  inputs.recorded = recorded_config(directory);
  if (!flags.policy.empty()) inputs.settings.push_back({"policy.name", flags.policy, "--policy " + flags.policy});
  inputs.settings.insert(inputs.settings.end(), flags.settings.begin(), flags.settings.end());
  auto loaded = load_config(inputs);
  if (const auto* wrong = std::get_if<ConfigError>(&loaded)) return Error{ErrorCode::kInvalid, wrong->text()};
  return std::move(std::get<LoadedConfig>(loaded).config);
}

std::string field_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "?";
  return found->is_string() ? printable(found->get<std::string>(), Lines::kOne) : json_text(*found);
}

// Slots of hosts: "h1:0,1 h2:3".
std::string slots_text(const nlohmann::json& record, const char* name) {
  std::string text;
  const auto slots = record.find(name);
  if (slots == record.end() || !slots->is_array()) return "?";
  for (const auto& host : *slots) {
    if (!host.is_object()) continue;
    std::string numbers = field_of(host, "slots");
    std::erase_if(numbers, [](char c) { return c == '[' || c == ']'; });
    text += (text.empty() ? "" : " ") + field_of(host, "host") + ":" + numbers;
  }
  return text;
}

// Workers of a cluster's job that are to move, and what came of it.
std::string move_text(const std::string& event, const nlohmann::json& record) {
  const std::string job = "j" + field_of(record, "job");
  if (event == "move_ended")
    return job + ": move " + field_of(record, "outcome") + ": " + field_of(record, "why") + "\n";
  return job + ": moves from " + slots_text(record, "from") + " to " + slots_text(record, "to") + ": " +
         field_of(record, "why") + "\n";
}

std::string helpers_text(const nlohmann::json& helpers) {
  const std::string text = field_of(helpers, "text"), why = field_of(helpers, "why");
  return "helper jobs: " + field_of(helpers, "what") + ", " + field_of(helpers, "slots") + " slots" +
         (text.empty() ? "" : " (" + text + ")") + "; jobs could use " + field_of(helpers, "needed") +
         (why.empty() ? "" : ": " + why) + "\n";
}

// A decision of a cluster and the shares that it changed, a line each; its moves; what it does about helper jobs.
std::string shared_text(std::string_view line, bool json) {
  const std::string event(event_name(line));
  const bool is_move = event == "moving" || event == "move_ended";
  const bool is_question = event == "policy_asked";
  if (event != "decided" && event != "helpers" && !is_question && !is_move) return "";
  if (json) return std::string(line) + "\n";
  const nlohmann::json decided = parse_json(line);
  const auto time = decided.find("t");
  std::string text = time != decided.end() && time->is_number() ? clock_text(time->get<double>()) : "";
  if (is_move) return text + move_text(event, decided);
  if (event == "helpers") return text + helpers_text(decided);
  if (is_question) {
    // What it has answered without a problem is the next decision.
    return decided.contains("problem") ? text + "the policy does not work: " + field_of(decided, "problem") + "\n" : "";
  }
  text += field_of(decided, "trigger") + ": " + field_of(decided, "slots") + " slots for " + field_of(decided, "jobs") +
          " jobs, " + field_of(decided, "waiting") + " wait (" + field_of(decided, "policy") + ")\n";
  const auto shares = decided.find("shares");
  if (shares == decided.end() || !shares->is_array()) return text;
  for (const auto& share : *shares) {
    if (!share.is_object()) continue;
    text += "  j" + field_of(share, "job") + ": " + field_of(share, "before") + " -> " + field_of(share, "after") +
            ": " + field_of(share, "why") + "\n";
  }
  return text;
}

int explain_cluster(const ExplainFlags& flags) {
  const auto directory = directory_of_cluster(flags.cluster);
  if (!directory.ok()) return complain("explain", directory.error());
  const std::string path = *directory + "/" + control::kJournalName;
  FileFollower reader(path);
  if (!reader.is_open()) return complain("explain", {ErrorCode::kUnavailable, path + " cannot be read"});
  reader.read_lines([&flags](std::string_view line) { std::cout << shared_text(line, flags.json); });
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

int explain(const ExplainFlags& flags) {
  if (!flags.cluster.empty()) return explain_cluster(flags);
  std::string path = flags.journal;
  if (path.empty()) {
    const auto found = find_run(flags.name);
    if (!found.ok()) return complain("explain", found.error());
    path = *found + "/" + control::kJournalName;
  }
  path = std::filesystem::absolute(path).string();
  if (!flags.journal.empty() && ::access(path.c_str(), R_OK) != 0) {
    return complain("explain", {ErrorCode::kNoInput, flags.journal + ": cannot be read: " + std::strerror(errno)});
  }
  const auto config = chosen_config(flags, std::filesystem::path(path).parent_path().string());
  if (!config.ok()) return complain("explain", config.error());
  const policy::RunnerSettings settings = policy_settings(config->policy);
  const auto replay = policy::Replay::make(settings);
  if (!replay.ok()) {
    return complain("explain", {replay.error().code, replay.error().message + "; or name another with --policy"});
  }
  Story story(**replay);
  const auto history = read_journal_lines(path, [&](const JournalLine& line) {
    if (line.record) story.take(*line.record, line.up_s.value_or(0));
  });
  if (!history.ok()) return complain("explain", history.error());
  if (story.found().empty()) {
    return complain("explain",
                    {ErrorCode::kUnavailable, path + " contains no decision yet: the run has no generation"});
  }
  std::cout << (flags.json
                    ? render_explained_json(story.found(), flags.all)
                    : render_explained(story.found(), policy::display_name(settings), flags.all) + story.length());
  return std::cout.flush() ? kExitSuccess : kExitFailure;
}

}  // namespace

Command make_explain(Invocation& invocation) {
  const auto flags = std::make_shared<ExplainFlags>();
  const auto set = [flags](const std::vector<std::string>& texts) -> Status {
    for (const std::string& text : texts) {
      auto setting = setting_of(text);
      if (!setting.ok()) return setting.error();
      flags->settings.push_back(std::move(*setting));
    }
    return {};
  };
  return {"explain",
          "why the run has its size, and where another policy would decide differently",
          kGroupClient,
          {word("run", "[NAME]", "name of the run, when several are live; it may have ended", flags->name),
           value("--journal", "FILE",
                 "a journal file instead of a run; needs --policy if the run's record is not in the same directory",
                 flags->journal),
           value("--policy", "NAME", "the policy to replay through; default: the run's own", flags->policy),
           list("--set", "KEY=VALUE", "another setting, for example --set policy.NAME.KEY=VALUE", set),
           cluster_journal_flag(flags->cluster),
           flag("--all", "show every view, not only decisions and where they differ", flags->all),
           flag("--json", "one JSON object per line", flags->json)},
          always(invocation, [flags] { return explain(*flags); })};
}

}  // namespace elastictrain::cli
