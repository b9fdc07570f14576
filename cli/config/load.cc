#include "cli/config/load.h"

#include <algorithm>
#include <set>

#include "cli/config/contradictions.h"
#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"
#include "cli/config/toml_reader.h"
#include "launcher/input_file.h"

extern char** environ;

namespace elastictrain::cli {
namespace {

class Loader {
 public:
  explicit Loader(const ConfigInputs& inputs) : inputs_(inputs) {}

  std::variant<LoadedConfig, ConfigError> load() {
    if (inputs_.recorded) apply_recorded(*inputs_.recorded);
    if (inputs_.file_text) apply_file();
    apply_environment();
    apply_settings();
    apply_program();
    settle_alternatives(loaded_);
    if (error_.messages.empty()) check_whole();
    if (!error_.messages.empty()) return std::move(error_);
    return std::move(loaded_);
  }

 private:
  void complain(std::string message, Level level) {
    error_.only_flags = error_.only_flags && level == Level::kFlag;
    error_.messages.push_back(std::move(message));
  }

  void note_result(const KeySpec& key, const Status& assigned, Level level, const std::string& where) {
    if (assigned.ok()) {
      loaded_.origins[key.name] = Origin{level, where};
    } else {
      complain(where + ": " + key.name + " " + assigned.error().message, level);
    }
  }

  void apply_recorded(const RunConfig& recorded) {
    const RunConfig defaults;
    loaded_.config = recorded;
    for (const KeySpec& key : schema()) {
      const bool is_set = render_value(recorded, key) != render_value(defaults, key);
      if (is_set) loaded_.origins[key.name] = Origin{Level::kFile, "the run's record"};
    }
  }

  void apply_file() {
    const TomlFile file = read_toml(*inputs_.file_text, inputs_.file_name);
    for (const std::string& mistake : file.mistakes) complain(mistake, Level::kFile);
    for (const TomlEntry& entry : file.entries) {
      note_result(*entry.key, assign(loaded_.config, *entry.key, entry.value), Level::kFile, entry.where);
    }
  }

  void apply_environment() {
    const std::map<std::string, std::string> variables(inputs_.environment.begin(), inputs_.environment.end());
    for (const KeySpec& key : schema()) {
      const auto found = variables.find(environment_name(key));
      if (found == variables.end()) continue;
      note_result(key, assign_text(loaded_.config, key, found->second), Level::kEnvironment,
                  "environment variable " + found->first);
    }
  }

  void apply_settings() {
    for (const Setting& setting : inputs_.settings) {
      const KeySpec* key = find_key(setting.key);
      if (key == nullptr) {
        complain(setting.source + ": " + unknown_key_text(setting.key), Level::kFlag);
      } else {
        note_result(*key, assign_text(loaded_.config, *key, setting.text), Level::kFlag, setting.source);
      }
    }
  }

  void apply_program() {
    if (inputs_.program.empty()) return;
    loaded_.config.command = inputs_.program;
    loaded_.origins["command"] = Origin{Level::kFlag, "the program after --"};
  }

  void check_whole() {
    for (const Contradiction& wrong : find_contradictions(loaded_, inputs_.starts_nothing)) {
      complain(wrong.message, wrong.level);
    }
  }

  const ConfigInputs& inputs_;
  LoadedConfig loaded_;
  ConfigError error_;
};

}  // namespace

std::string LoadedConfig::where(std::string_view key) const {
  const auto found = origins.find(key);
  return found == origins.end() ? "default" : found->second.where;
}

std::string ConfigError::text() const {
  std::string text;
  for (const std::string& message : messages) text += (text.empty() ? "" : "\n") + message;
  return text;
}

std::variant<LoadedConfig, ConfigError> load_config(const ConfigInputs& inputs) {
  return Loader(inputs).load();
}

Result<std::string> read_config_file(const std::string& path) {
  return launcher::read_input_file(path);
}

std::vector<std::string> misspelt_variables(const std::vector<std::pair<std::string, std::string>>& environment) {
  constexpr std::string_view kPrefix = "ELASTICTRAIN_";
  // Two letters that changed places, or two other mistakes: other variables of ours are further away.
  constexpr std::size_t kTypingMistake = 2;
  std::vector<std::string> names;
  for (const KeySpec& key : schema()) names.push_back(environment_name(key));
  std::vector<std::string> sentences;
  for (const auto& [variable, value] : environment) {
    const bool is_ours =
        variable.starts_with(kPrefix) && std::find(names.begin(), names.end(), variable) == names.end();
    const auto near = is_ours ? closest(variable, names) : std::nullopt;
    if (!near || edit_distance(variable, *near) > kTypingMistake) continue;
    sentences.push_back("the environment variable " + variable + " sets nothing; did you mean " + *near + "?");
  }
  return sentences;
}

std::vector<std::pair<std::string, std::string>> process_environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace elastictrain::cli
