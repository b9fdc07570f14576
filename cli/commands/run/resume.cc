#include "cli/commands/run/resume.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>

#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/config/checks.h"
#include "cli/config/key_value.h"
#include "cli/config/load.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"
#include "supervisor/control/control_client.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

using Json = nlohmann::json;
using Variables = std::vector<std::pair<std::string, std::string>>;
using Choice = std::variant<RunChoice, ChoiceFailed>;

constexpr const char* kFixedKeys[] = {"command",       "working_directory",    "hosts.list",      "hosts.file",
                                      "cluster",       "hosts.discover",       "hosts.slots",     "hosts.endpoint",
                                      "launcher.kind", "checkpoint.directory", "network.backend", "network.encryption"};

ChoiceFailed unavailable(std::string text) {
  return {"elastictrain run: " + std::move(text), kExitUnavailable};
}

ChoiceFailed failed(const Error& error) {
  const int status = error.code == ErrorCode::kInvalid  ? kExitConfig
                     : error.code == ErrorCode::kDenied ? kExitNoPermission
                                                        : kExitUnavailable;
  return {"elastictrain run: " + error.message, status};
}

// The program's name and the time: two runs must not share a journal, and the name should be recognizable.
std::string default_name(const RunConfig& config) {
  std::string base = "trainer";
  if (!config.use_trainer && !config.command.empty())
    base = std::filesystem::path(config.command[0]).filename().string();
  std::string name;
  for (const char c : base.substr(0, 32)) {
    const bool fits = check_run_name(name + c).ok();  // at the beginning fewer letters do
    if (fits || !name.empty()) name += fits ? c : '_';
  }
  const std::time_t now = std::time(nullptr);
  tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "-%m%d-%H%M%S", &parts);
  return (name.empty() ? "run" : name) + text.data() + "-" + std::to_string(::getpid());
}

bool has_no_supervisor(const std::string& directory) {
  const auto record = load_run_record(directory);
  return record.ok() && !record->end && !control::is_live(directory) && !supervisor_held_elsewhere(directory);
}

std::vector<std::string> runs_without_supervisor(const std::string& state) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(state, ignored)) {
    if (has_no_supervisor(entry.path().string())) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The name given by the command line or the file; else the name of the only run that can be resumed.
Result<std::string> name_to_resume(const RunFlags& flags, const std::string& configured) {
  const bool both = !flags.resume_name.empty() && !configured.empty() && flags.resume_name != configured;
  if (both) {
    return Error{ErrorCode::kInvalid, "--resume " + flags.resume_name + " and the name " + configured +
                                          " name different runs: remove one of them"};
  }
  if (!flags.resume_name.empty()) return flags.resume_name;
  if (!configured.empty()) return configured;
  const auto state = state_directory();
  if (!state.ok()) return state.error();
  const std::vector<std::string> names = runs_without_supervisor(*state);
  if (names.size() == 1) return names.front();
  if (names.empty()) {
    const std::vector<std::string> live = control::list_runs(*state);
    return Error{ErrorCode::kUnavailable, "no run can be resumed: no run has lost its supervisor" +
                                              (live.empty() ? "" : "; live: " + join(live, ", ")) +
                                              "; one that has ended is named: elastictrain run --resume NAME"};
  }
  return Error{ErrorCode::kUnavailable,
               "several runs can be resumed, name one with --resume NAME: " + join(names, ", ")};
}

std::string name_setting(const RunFlags& flags) {
  std::string name;
  for (const Setting& setting : flags.settings) {
    if (setting.key == "name") name = setting.text;
  }
  return name;
}

Result<RunStart> start_of(const RunRecord& record, const RunConfig& config, bool fresh) {
  if (!record.end && fresh) {
    return Error{ErrorCode::kUnavailable, "run " + record.run_name +
                                              " has lost its supervisor, and its workers may still train: --fresh is "
                                              "for runs that have ended"};
  }
  if (!record.end) return RunStart::kTakeOver;
  if (fresh) return RunStart::kFresh;
  const std::string how = how_it_ended(record) + "; ";
  if (record.end->exit_status == kExitSuccess && !record.end->can_continue) {
    return Error{ErrorCode::kUnavailable,
                 how + "there is nothing to resume. To start it again from the beginning, omit --resume"};
  }
  if (config.checkpoint.directory.empty()) {
    return Error{
        ErrorCode::kUnavailable,
        how + "it has no checkpoint.directory to continue from. To start it again from the beginning, omit --resume"};
  }
  return RunStart::kStartAgain;
}

Variables passed_variables(const RunConfig& config, const Variables& ours) {
  Variables passed;
  for (const auto& [name, value] : ours) {
    if (is_passed(config.environment, name)) passed.emplace_back(name, value);
  }
  return passed;
}

ChoiceFailed config_failed(const ConfigError& error) {
  return {error_text("run", error), exit_status_of(error)};
}

ChoiceFailed not_recorded(const std::string& name, const std::string& directory) {
  const std::string state = directory.substr(0, directory.rfind('/'));
  return unavailable("cannot resume run " + name + ": it has no record in " + directory + meant_run(name, state) +
                     "; elastictrain list names all runs");
}

ChoiceFailed still_live(const std::string& name) {
  return unavailable("run " + name + " is live, and there is nothing to resume; what it does: elastictrain status " +
                     name + ", its output: elastictrain attach " + name);
}

// The configuration comes from the record. Flags and environment override the keys that may change.
Choice resume_recorded(const RunFlags& flags) {
  const auto name = name_to_resume(flags, name_setting(flags));
  if (!name.ok()) return failed(name.error());
  const auto directory = run_directory_of(*name);
  if (!directory.ok()) return failed(directory.error());
  const auto record = load_run_record(*directory);
  if (!record.ok()) {
    if (record.error().code != ErrorCode::kUnavailable) return failed(record.error());
    return not_recorded(*name, *directory);
  }
  if (control::is_live(*directory)) return still_live(*name);
  const auto recorded = decode_recorded(record->config);
  if (!recorded.ok()) return failed(recorded.error());
  std::error_code no_directory;
  std::filesystem::current_path(recorded->directory, no_directory);
  if (no_directory)
    return unavailable("the directory of run " + *name + ", " + recorded->directory + ", no longer exists");
  Variables environment = process_environment();  // which may be that of a shell with another run's directory
  std::erase_if(environment, [](const auto& one) { return one.first == "ELASTICTRAIN_CHECKPOINT_DIRECTORY"; });
  const auto loaded = load_from_flags(flags, {}, environment, recorded->config);
  if (const auto* error = std::get_if<ConfigError>(&loaded)) return config_failed(*error);
  RunConfig config = std::get<LoadedConfig>(loaded).config;
  const auto start = start_of(*record, config, flags.fresh);
  if (!start.ok()) return failed(start.error());
  config.name = *name;
  return RunChoice{std::move(config),
                   {recorded->variables, recorded->directory, *name, process_environment()},
                   *start,
                   recorded->typed};
}

std::string differs_text(const std::string& name, const std::string& directory,
                         const std::vector<std::string>& differences) {
  std::string text =
      "run " + name + " is still training without its supervisor, and its configuration differs from this command's:\n";
  for (const std::string& difference : differences) text += "  " + difference + "\n";
  return text + "To take it over with its own configuration: elastictrain run --resume " + name +
         "\nTo start another run, choose another --name; to discard the old one, remove " + directory;
}

// The configuration is given. A run of this name that has lost its supervisor is taken over if the configuration
// agrees.
Choice choose_given(const RunFlags& flags, const Loaded& loaded) {
  const Variables environment = process_environment();
  if (const auto* error = std::get_if<ConfigError>(&loaded)) return config_failed(*error);
  RunChoice choice{std::get<LoadedConfig>(loaded).config, {}, RunStart::kFresh};
  RunConfig& config = choice.config;
  if (flags.resume) {
    auto name = name_to_resume(flags, config.name);
    if (!name.ok()) return failed(name.error());
    config.name = std::move(*name);
  }
  const auto here = current_directory();
  if (!here.ok()) return failed(here.error());
  choice.inputs = {environment, *here, default_name(config), environment};
  config.checkpoint.directory =
      checkpoint_directory_of(config, config.name.empty() ? choice.inputs.default_name : config.name);
  if (config.name.empty()) return choice;
  const auto directory = run_directory_of(config.name);
  if (!directory.ok()) return failed(directory.error());
  const auto record = load_run_record(*directory);
  if (!record.ok()) {
    return flags.resume ? Choice(not_recorded(config.name, *directory)) : Choice(choice);
  }
  if (flags.resume && control::is_live(*directory)) return still_live(config.name);
  if (!flags.resume && (record->end || control::is_live(*directory))) return choice;
  if (const auto place = supervisor_held_elsewhere(*directory))
    return unavailable(describe_elsewhere(config.name, *place));
  const auto start = start_of(*record, config, flags.fresh);
  if (!start.ok()) return failed(start.error());
  const auto recorded = decode_recorded(record->config);
  if (!recorded.ok()) return failed(recorded.error());
  auto differences = find_differences(recorded->config, config);
  if (recorded->directory != *here)
    differences.push_back("it was started in " + recorded->directory + ", not in " + *here);
  if (!differences.empty()) return unavailable(differs_text(config.name, *directory, differences));
  choice.start = *start;
  return choice;
}

std::string shown(const RunConfig& config, const KeySpec& key) {
  const std::string value = render_value(config, key);
  return value.empty() ? "nothing" : value;
}

}  // namespace

std::string encode_recorded(const RecordedRun& run) {
  const Json json = {{"config", snapshot_of(run.config)},
                     {"directory", run.directory},
                     {"variables", passed_variables(run.config, run.variables)},
                     {"typed", run.typed}};
  return json_text(json);
}

Result<RecordedRun> decode_recorded(const std::string& text) {
  const Error useless{ErrorCode::kInvalid, "the configuration in the run's record cannot be read"};
  try {
    const Json json = parse_json(text);
    auto config = config_of_snapshot(json.at("config").get<std::string>());
    if (!config.ok()) return config.error();
    return RecordedRun{std::move(*config), json.at("directory").get<std::string>(),
                       json.at("variables").get<Variables>(), json.value("typed", std::vector<std::string>())};
  } catch (const Json::exception&) {
    return useless;
  }
}

std::optional<RecordedRun> find_recorded(const std::string& directory) {
  const auto record = load_run_record(directory);
  if (!record.ok()) return std::nullopt;
  auto recorded = decode_recorded(record->config);
  if (!recorded.ok()) return std::nullopt;
  return std::move(*recorded);
}

std::vector<std::string> find_differences(const RunConfig& before, const RunConfig& now) {
  std::vector<std::string> differences;
  for (const KeySpec& key : schema()) {
    const bool fixed = std::find(std::begin(kFixedKeys), std::end(kFixedKeys), key.name) != std::end(kFixedKeys);
    if (!fixed && !key.name.starts_with("trainer.")) continue;
    const std::string old_value = shown(before, key);
    const std::string new_value = shown(now, key);
    if (old_value != new_value) differences.push_back(key.name + " was " + old_value + ", is " + new_value);
  }
  return differences;
}

Choice choose_run(const RunFlags& flags, const std::vector<std::string>& program, std::optional<Loaded> loaded) {
  if (flags.fresh && !flags.resume) {
    return ChoiceFailed{"elastictrain run: --fresh goes with --resume NAME: a run without it is a new one", kExitUsage};
  }
  const bool recorded = flags.resume && flags.config_file.empty() && program.empty();
  Choice choice = recorded ? resume_recorded(flags)
                           : choose_given(flags, loaded ? std::move(*loaded)
                                                        : load_from_flags(flags, program, process_environment()));
  if (auto* chosen = std::get_if<RunChoice>(&choice)) {
    if (flags.fresh) chosen->config.checkpoint.resume = false;
    if (chosen->typed.empty()) chosen->typed = flags.typed;
  }
  return choice;
}

std::string checkpoint_directory_of(const RunConfig& config, const std::string& run) {
  constexpr std::string_view kPlace = "{run}";
  std::string directory = config.checkpoint.directory;
  const bool shared = !config.cluster.empty() && !config.checkpoint.adopt && !directory.empty();
  if (shared && directory.find(kPlace) == std::string::npos) return directory + "/" + run;
  for (std::size_t at = directory.find(kPlace); at != std::string::npos; at = directory.find(kPlace, at + run.size())) {
    directory.replace(at, kPlace.size(), run);
  }
  return directory;
}

}  // namespace elastictrain::cli
