#include "cli/commands/run_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "cli/commands/exit_code.h"
#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

bool is_executable_file(const std::string& path) {
  std::error_code failed;
  return std::filesystem::is_regular_file(path, failed) && ::access(path.c_str(), X_OK) == 0;
}

bool is_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  const auto folders = split(path == nullptr ? "" : path, ':');
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return is_executable_file(folder + "/" + name); });
}

}  // namespace

bool is_script(const std::string& word) {
  return word.ends_with(".py") || word.ends_with(".sh");
}

bool begins_program(const std::string& word) {
  if (word.empty() || word.starts_with('-') || word.ends_with(".toml")) return false;
  if (is_script(word)) return true;
  std::error_code failed;
  const bool has_folder = word.find('/') != std::string::npos;
  if (has_folder || std::filesystem::exists(word, failed)) return has_folder && is_executable_file(word);
  return is_on_path(word);
}

namespace {

// The name that a user recognizes: the last long form.
std::string long_name(const std::string& flag) {
  return flag.substr(flag.rfind(',') + 1);
}

std::string group_of(const KeySpec& key) {
  const std::string section(split_key(key.name).first);
  return section.empty() ? "Job" : "[" + section + "]";
}

std::string help_of(const KeySpec& key) {
  const RunConfig defaults;
  const std::string value = render_value(defaults, key);
  const std::string range = value.empty() ? "" : "; default " + value;
  return key.help + " (" + key.name + range + ")";
}

// Flags take seconds by default. The keys that they set have their unit in the name.
Result<std::string> duration_as_number(const KeySpec& key, const std::string& flag, const std::string& text) {
  const auto duration = parse_duration_ms(text);
  if (!duration.ok()) return wrong_usage(flag + ": " + duration.error().message);
  return std::to_string(key.unit == "seconds" ? (*duration + 999) / 1000 : *duration);
}

std::string type_name_of(const KeySpec& key) {
  if (key.flag_is_duration) return "TIME";
  if (std::holds_alternative<IntegerField>(key.field)) return "N";
  const auto* choice = std::get_if<ChoiceField>(&key.field);
  return choice == nullptr ? "TEXT" : join({choice->names.begin(), choice->names.end()}, "|");
}

Argument argument_of(const KeySpec& key, const std::shared_ptr<RunFlags>& flags) {
  const std::string name = long_name(key.flag);
  if (std::holds_alternative<BoolField>(key.field)) {
    const auto enable = [&key, name, flags] { flags->settings.push_back({key.name, "true", name}); };
    return flag(key.flag, help_of(key), enable).in(group_of(key));
  }
  const auto keep = [&key, name, flags](const std::string& text) -> Status {
    const Result<std::string> number = key.flag_is_duration ? duration_as_number(key, name, text) : Result(text);
    if (!number.ok()) return number.error();
    flags->settings.push_back({key.name, *number, name + " " + text});
    return {};
  };
  if (const auto* field = std::get_if<ListField>(&key.field)) {
    const std::string separator = field->split_on_spaces ? " " : ",";
    const auto keep_all = [keep, separator](const std::vector<std::string>& texts) {
      return keep(join(texts, separator));
    };
    return list(key.flag, "LIST", help_of(key), keep_all).in(group_of(key));
  }
  return value(key.flag, type_name_of(key), help_of(key), keep).in(group_of(key));
}

Argument label_argument(const std::shared_ptr<RunFlags>& flags) {
  const auto keep = [flags](const std::string& text) {
    flags->settings.push_back({"log.label", text == "none" ? "" : text, "--label=" + text});
    return Status();
  };
  return value("-l,--label", "[=TEMPLATE]", help_of(*find_key("log.label")) + "; none for no prefix", keep).in("[log]");
}

Argument torch_argument(const std::shared_ptr<RunFlags>& flags) {
  const auto enable = [flags] {
    flags->torch = true;
    flags->variables.push_back("ELASTICTRAIN_TORCH=1");
  };
  return flag("--torch", "make an unchanged PyTorch script elastic; its Python needs the package elastictrain", enable)
      .in("[environment]");
}

Argument restarts_argument(const std::shared_ptr<RunFlags>& flags) {
  const std::string normal = std::to_string(RunConfig().failures.max_crashes);
  return list("--max-restarts", "N|CLASS:N[/TIME]",
              "failures within the window before the run ends; default crash:" + normal, flags->restarts)
      .in("[failures]");
}

Argument detach_argument(const std::shared_ptr<RunFlags>& flags) {
  const auto detach = [flags] {
    flags->detach = true;
    flags->settings.push_back({"signals.hup", "ignore", "--detach"});
  };
  return flag("--detach", "return when training has begun; the run goes on without this terminal", detach).in("Job");
}

void add_passed_variable(const std::string& word, RunConfig& config) {
  auto& list = word.find('=') == std::string::npos ? config.environment.pass : config.environment.set;
  list.push_back(word);
}

Status check_variables(const RunFlags& flags) {
  RunConfig scratch;
  for (const std::string& word : flags.variables) {
    const bool value = word.find('=') != std::string::npos;
    const KeySpec& key = *find_key(value ? "environment.set" : "environment.pass");
    const Status good = assign(scratch, key, std::vector<std::string>{word});
    if (!good.ok()) return Error{ErrorCode::kInvalid, "-x " + word + ": " + good.error().message};
  }
  return {};
}

ConfigError usage_error(std::string message) {
  return {{std::move(message)}, true};
}

// Both forms are whole seconds, as the key that they set.
Result<Setting> window_setting(const std::string& text, const std::string& source) {
  const auto window = parse_duration_ms(text);
  if (!window.ok()) return Error{ErrorCode::kInvalid, source + ": " + window.error().message};
  return Setting{"failures.window_s", std::to_string((*window + 999) / 1000), source};
}

const char* budget_key(std::string_view failure_class) {
  if (failure_class == "crash") return "failures.max_crashes";
  if (failure_class == "hang") return "failures.max_hangs";
  return failure_class == "infrastructure" ? "failures.max_infrastructure" : nullptr;
}

}  // namespace

Result<Setting> setting_of(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) {
    return Error{ErrorCode::kInvalid, "--set " + word + ": write --set KEY=VALUE, e.g. --set batch.per_worker=64"};
  }
  return Setting{std::string(trim(word.substr(0, equals))), word.substr(equals + 1), "--set " + word};
}

std::string error_text(const char* command, const ConfigError& error) {
  if (!error.only_flags) return error.text();
  std::string text;
  for (const std::string& message : error.messages)
    text += std::string("elastictrain ") + command + ": " + message + "\n";
  return text + "Try 'elastictrain " + command + " --help'.";
}

int exit_status_of(const ConfigError& error) {
  if (error.no_input) return kExitNoInput;
  return error.only_flags ? kExitUsage : kExitConfig;
}

std::vector<Argument> run_arguments(const std::shared_ptr<RunFlags>& flags) {
  std::vector<Argument> arguments = {
      word("config", "[CONFIG.toml]", "config file (TOML)", flags->config_file),
      value("-n,--np", "N|MIN:MAX", "number of workers, or MIN:MAX", flags->sizes).in("[workers]"),
      restarts_argument(flags), detach_argument(flags)};
  for (const KeySpec& key : schema()) {
    if (!key.flag.empty()) arguments.push_back(argument_of(key, flags));
  }
  arguments.push_back(label_argument(flags));
  arguments.push_back(
      list("-x", "VAR[=VALUE]", "environment variable for workers: VAR (our own value) or VAR=value", flags->variables)
          .in("[environment]"));
  arguments.push_back(torch_argument(flags));
  arguments.push_back(
      list("--set", "KEY=VALUE", "any key of the config, for example --set batch.per_worker=64", flags->set).in("Job"));
  return arguments;
}

Result<std::vector<Setting>> settings_of_sizes(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string low = text.substr(0, colon);
  const std::string high = colon == std::string::npos ? low : text.substr(colon + 1);
  const std::string source = "-n " + text;
  if (!parse_whole_number(low) || !parse_whole_number(high)) {
    return Error{ErrorCode::kInvalid, source + ": write a number of workers, or MIN:MAX, e.g. -n 4 or -n 2:8"};
  }
  const std::string start = colon == std::string::npos ? low : "0";
  return std::vector<Setting>{
      {"workers.min", low, source}, {"workers.start", start, source}, {"workers.max", high, source}};
}

Result<std::vector<Setting>> settings_of_restarts(const std::string& text) {
  const std::string source = "--max-restarts " + text;
  const std::size_t slash = text.find('/');
  const std::string budget = text.substr(0, slash);
  const std::size_t colon = budget.find(':');
  const char* key = budget_key(colon == std::string::npos ? "crash" : budget.substr(0, colon));
  const std::string amount = colon == std::string::npos ? budget : budget.substr(colon + 1);
  if (key == nullptr || (amount != "unlimited" && !parse_whole_number(amount))) {
    return Error{ErrorCode::kInvalid, source + ": write a number, or a class with a number (crash:3, hang:3, " +
                                          "infrastructure:unlimited), optionally with a window (crash:3/10m)"};
  }
  std::vector<Setting> settings = {{key, amount, source}};
  if (slash == std::string::npos) return settings;
  auto window = window_setting(text.substr(slash + 1), source);
  if (!window.ok()) return window.error();
  settings.push_back(std::move(*window));
  return settings;
}

namespace {

Result<std::vector<Setting>> settings_of_all_restarts(const std::vector<std::string>& words) {
  std::vector<Setting> settings;
  for (const std::string& word : words) {
    auto parsed = settings_of_restarts(word);
    if (!parsed.ok()) return parsed.error();
    for (Setting& setting : *parsed) {
      const auto differs = [&](const Setting& other) {
        return other.key == setting.key && other.key == "failures.window_s" && other.text != setting.text;
      };
      const auto other = std::find_if(settings.begin(), settings.end(), differs);
      if (other != settings.end()) {
        return Error{ErrorCode::kInvalid, other->source + " and " + setting.source + ": all classes share one window"};
      }
      settings.push_back(std::move(setting));
    }
  }
  return settings;
}

}  // namespace

Loaded load_from_flags(const RunFlags& flags, const std::vector<std::string>& program,
                       std::vector<std::pair<std::string, std::string>> environment,
                       const std::optional<RunConfig>& recorded) {
  for (const std::string& sentence : misspelt_variables(environment)) {
    std::cerr << "elastictrain: warning: " << sentence << "\n";
  }
  ConfigInputs inputs;
  inputs.environment = std::move(environment);
  inputs.program = program;
  inputs.recorded = recorded;
  inputs.starts_nothing = flags.starts_nothing;
  if (!flags.config_file.empty()) {
    auto text = read_config_file(flags.config_file);
    if (!text.ok()) {
      const bool is_program = !flags.config_file.ends_with(".toml");
      const std::string hint =
          ", and is no program here; one that only the hosts have is written after --, e.g. -- " + flags.config_file;
      std::error_code ignored;
      const bool no_input = !is_program || std::filesystem::exists(flags.config_file, ignored);
      return ConfigError{{text.error().message + (is_program ? hint : "")}, is_program, no_input};
    }
    if (text->find('\0') != std::string::npos) {
      return usage_error(flags.config_file + " is not a config file, and cannot be executed; chmod +x " +
                         flags.config_file);
    }
    inputs.file_name = flags.config_file;
    inputs.file_text = std::move(*text);
  }
  if (!flags.sizes.empty()) {
    auto sizes = settings_of_sizes(flags.sizes);
    if (!sizes.ok()) return usage_error(sizes.error().message);
    inputs.settings = std::move(*sizes);
  }
  auto restarts = settings_of_all_restarts(flags.restarts);
  if (!restarts.ok()) return usage_error(restarts.error().message);
  inputs.settings.insert(inputs.settings.end(), restarts->begin(), restarts->end());
  inputs.settings.insert(inputs.settings.end(), flags.settings.begin(), flags.settings.end());
  for (const std::string& word : flags.set) {
    auto setting = setting_of(word);
    if (!setting.ok()) return usage_error(setting.error().message);
    inputs.settings.push_back(std::move(*setting));
  }
  if (const Status good = check_variables(flags); !good.ok()) return usage_error(good.error().message);
  auto loaded = load_config(inputs);
  if (auto* config = std::get_if<LoadedConfig>(&loaded)) {
    for (const std::string& word : flags.variables) add_passed_variable(word, config->config);
  }
  return loaded;
}

}  // namespace elastictrain::cli
