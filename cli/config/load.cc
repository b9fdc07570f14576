#include "cli/config/load.h"

#include <algorithm>
#include <set>

#include "cli/config/contradictions.h"
#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"
#include "cli/config/toml_reader.h"
#include "launcher/input_file.h"
#include "supervisor/protocol/json_text.h"

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

namespace {

using Json = nlohmann::json;

constexpr const char* kUsesTrainer = "uses_trainer";

struct Take {
  const RunConfig& config;
  const KeySpec& key;

  Json operator()(const IntegerField&) const {
    const std::string text = render_value(config, key);
    const Json number = parse_json(text);
    return number.is_number() ? number : Json(text);  // "unlimited"
  }
  Json operator()(const BoolField&) const { return render_value(config, key) == "true"; }
  Json operator()(const TextField&) const { return render_value(config, key); }
  // The rendered text joins elements with a separator that an element may contain.
  Json operator()(const ListField& field) const { return field.at(const_cast<RunConfig&>(config)); }
  Json operator()(const ChoiceField&) const { return render_value(config, key); }
  Json operator()(const TrainerKeyField&) const { return render_value(config, key); }
  Json operator()(const NumberField& field) const { return field.at(const_cast<RunConfig&>(config)); }
  Json operator()(const PolicyKeyField& field) const {
    const std::string text = render_value(config, key);
    return std::holds_alternative<std::string>(field.parameter->default_value) ? Json(text) : parse_json(text);
  }
};

std::optional<Value> value_of(const Json& json) {
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_integer()) return Value(json.get<std::int64_t>());
  if (json.is_number()) return Value(json.get<double>());
  if (json.is_string()) return Value(json.get<std::string>());
  if (!json.is_array()) return std::nullopt;
  std::vector<std::string> list;
  for (const Json& element : json) {
    if (!element.is_string()) return std::nullopt;
    list.push_back(element.get<std::string>());
  }
  return Value(std::move(list));
}

Status restore(RunConfig& config, const std::string& name, const Json& json) {
  const Error useless{ErrorCode::kInvalid, "the run's recorded configuration has an unusable value for " + name};
  const KeySpec* key = find_key(name);
  const auto value = value_of(json);
  if (key == nullptr || !value) return useless;
  const auto* text = std::get_if<std::string>(&*value);
  const bool is_trainer = std::holds_alternative<TrainerKeyField>(key->field);
  if (is_trainer && text == nullptr) return useless;
  const Status assigned = is_trainer ? assign_text(config, *key, *text) : assign(config, *key, *value);
  return assigned.ok() ? assigned : Status(useless);
}

}  // namespace

std::string snapshot_of(const RunConfig& config) {
  const RunConfig defaults;
  Json snapshot = {{kUsesTrainer, config.use_trainer}};
  for (const KeySpec& key : schema()) {
    const Json value = std::visit(Take{config, key}, key.field);
    if (value != std::visit(Take{defaults, key}, key.field)) snapshot[key.name] = value;
  }
  return json_text(snapshot);
}

Result<RunConfig> config_of_snapshot(const std::string& snapshot) {
  const Json json = parse_json(snapshot);
  if (!json.is_object() || !json.contains(kUsesTrainer) || !json[kUsesTrainer].is_boolean()) {
    return Error{ErrorCode::kInvalid, "the run's recorded configuration cannot be read"};
  }
  RunConfig config;
  for (const auto& [name, value] : json.items()) {
    if (name == kUsesTrainer) continue;
    if (const Status restored = restore(config, name, value); !restored.ok()) return restored.error();
  }
  config.use_trainer = json[kUsesTrainer].get<bool>();
  return config;
}

}  // namespace elastictrain::cli
