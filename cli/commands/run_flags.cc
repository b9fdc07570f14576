#include "cli/commands/run_flags.h"

#include <algorithm>
#include <utility>

#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"

namespace elastictrain::cli {
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
std::string duration_as_number(const KeySpec& key, const std::string& flag, const std::string& text) {
  const auto duration = parse_duration_ms(text);
  if (!duration.ok()) throw CLI::ValidationError(flag, duration.error().message);
  return std::to_string(key.unit == "seconds" ? (*duration + 999) / 1000 : *duration);
}

std::string type_name_of(const KeySpec& key) {
  if (key.flag_is_duration) return "TIME";
  if (std::holds_alternative<IntegerField>(key.field)) return "N";
  const auto* choice = std::get_if<ChoiceField>(&key.field);
  return choice == nullptr ? "TEXT" : join({choice->names.begin(), choice->names.end()}, "|");
}

void add_key_flag(CLI::App& command, const KeySpec& key, const std::shared_ptr<RunFlags>& flags) {
  const std::string flag = long_name(key.flag);
  const auto keep = [&key, flag, flags](const std::string& text) {
    const std::string value = key.flag_is_duration ? duration_as_number(key, flag, text) : text;
    flags->settings.push_back({key.name, value, flag + " " + text});
  };
  CLI::Option* option = nullptr;
  if (std::holds_alternative<BoolField>(key.field)) {
    option = command.add_flag_callback(key.flag, [&key, flag, flags] {
      flags->settings.push_back({key.name, "true", flag});
    });
  } else if (std::holds_alternative<ListField>(key.field)) {
    const char separator = std::get<ListField>(key.field).split_on_spaces ? ' ' : ',';
    option = command.add_option_function<std::vector<std::string>>(
        key.flag,
        [keep, separator](const std::vector<std::string>& words) { keep(join(words, std::string(1, separator))); });
    option->allow_extra_args(false)->type_name("LIST");
  } else {
    option = command.add_option_function<std::string>(key.flag, keep);
    option->type_name(type_name_of(key));
  }
  option->description(help_of(key))->group(group_of(key));
}

void add_label_flag(CLI::App& command, const std::shared_ptr<RunFlags>& flags) {
  const auto keep = [flags](const std::string& text) {
    flags->settings.push_back({"log.label", text == "none" ? "" : text, "--label=" + text});
  };
  command.add_option_function<std::string>("-l,--label", keep)
      ->description(help_of(*find_key("log.label")) + "; none for no prefix")
      ->type_name("[=TEMPLATE]")
      ->group("[log]");
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

void add_run_flags(CLI::App& command, const std::shared_ptr<RunFlags>& flags) {
  command.add_option("config", flags->config_file, "config file (TOML)")->type_name("[CONFIG.toml]");
  command.add_option("-n,--np", flags->sizes, "number of workers, or MIN:MAX")
      ->type_name("N|MIN:MAX")
      ->group("[workers]");
  command
      .add_option("--max-restarts", flags->restarts,
                  "failures within the window before the run ends; default crash:" +
                      std::to_string(RunConfig().failures.max_crashes))
      ->allow_extra_args(false)
      ->type_name("N|CLASS:N[/TIME]")
      ->group("[failures]");
  command.add_flag_callback("--detach",
                            [flags] {
                              flags->settings.push_back({"signals.hup", "ignore", "--detach"});
                            })
      ->description("continue when the terminal hangs up (signals.hup = \"ignore\")")
      ->group("[signals]");
  for (const KeySpec& key : schema()) {
    if (!key.flag.empty()) add_key_flag(command, key, flags);
  }
  add_label_flag(command, flags);
  command.add_option("-x", flags->variables, "environment variable for workers: VAR (our own value) or VAR=value")
      ->allow_extra_args(false)
      ->type_name("VAR[=VALUE]")
      ->group("[environment]");
  command.add_option("--set", flags->set, "any key of the config, for example --set batch.per_worker=64")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE")
      ->group("Job");
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

std::variant<LoadedConfig, ConfigError> load_from_flags(const RunFlags& flags, const std::vector<std::string>& program,
                                                        std::vector<std::pair<std::string, std::string>> environment,
                                                        const std::optional<RunConfig>& recorded) {
  ConfigInputs inputs;
  inputs.environment = std::move(environment);
  inputs.program = program;
  inputs.recorded = recorded;
  inputs.starts_nothing = flags.starts_nothing;
  if (!flags.config_file.empty()) {
    auto text = read_config_file(flags.config_file);
    if (!text.ok()) {
      const bool is_program = !flags.config_file.ends_with(".toml");
      const std::string hint = "; put a program after --, e.g. -- " + flags.config_file;
      return ConfigError{{text.error().message + (is_program ? hint : "")}, is_program};
    }
    if (text->find('\0') != std::string::npos) {
      return usage_error(flags.config_file + " is not a config file; put a program after --, e.g. -- " +
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
