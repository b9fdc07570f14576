#include "cli/config/snapshot.h"

#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
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
