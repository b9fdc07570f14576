#include "cli/output/config_reference.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <variant>

#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

constexpr const char* kIntroduction = R"(# Configuration keys

This page is generated: `elastictrain check --reference > cli/CONFIGURATION.md`. A test compares it with the binary.

A key has the same meaning in a config file, in the environment and on the command line. A flag takes precedence over
the environment, the environment over the file, the file over the default.

- **File** (TOML): `per_worker = 64` below `[batch]`. An unknown key is an error.
- **Environment**: `ELASTICTRAIN_BATCH_PER_WORKER=64`. Elements of a list are separated by commas; the arguments of a command
  are separated by spaces.
- **Command line** of `run`, `check` and `plan`: the key's own flag where it has one, else `--set batch.per_worker=64`.
  A flag for a time takes `90s`, `5m` or `1h30m`; a number without a unit is in seconds.

`elastictrain check config.toml` lists the values that are set and where; with `--all` those of every key.

)";

constexpr SharedFlag kSharedFlags[] = {
    {"-n, --np", "N or MIN:MAX", "workers.min workers.start workers.max"},
    {"--max-restarts", "N or CLASS:N[/TIME]",
     "failures.max_crashes failures.max_hangs failures.max_infrastructure failures.window_s"},
    {"--detach", "", "signals.hup"},
    {"-l, --label", "[=TEMPLATE]", "log.label"},
    {"-x", "VAR[=VALUE]", "environment.pass environment.set"},
    {"--torch", "", "environment.set"},
};

// Sections without one here are those of policies: they have the policy's own.
constexpr std::pair<std::string_view, std::string_view> kSectionTexts[] = {
    {"", "At the top of the file, before any section. A program after `--` replaces `command`."},
    {"workers", "Number of workers, and the processors that they use."},
    {"hosts",
     "Where workers run. At most one of `list`, `file` and `discover`; without any, the allocation of the batch "
     "job, else this machine."},
    {"job", "What a run of a cluster asks of it."},
    {"launcher", "How agents start on the hosts."},
    {"batch", "Samples per step, and how they follow the number of workers."},
    {"learning_rate", "The learning rate factor that the session gives to the program."},
    {"synchronization", "What workers exchange in a step."},
    {"checkpoint", "Checkpoints, and the start from one."},
    {"audit", "Checks of the run while it trains."},
    {"failures", "Failures: what is tolerated, how they are detected, what follows."},
    {"preemption", "Notices of hosts that are about to go away."},
    {"policy", "Automatic changes of the size. At most one of `name`, `library` and `program`."},
    {"convergence",
     "How long a program trains that does not say it, by its loss ([estimate](../heuristics/README.md))."},
    {"cost", "Prices, for policies and reports."},
    {"timeouts", "Deadlines of the run. `elastictrain check --all` lists them by length."},
    {"log", "Output of workers, and log files."},
    {"report", "The page about a run that has ended."},
    {"metrics", "Figures for Prometheus."},
    {"on", "Commands at events of the run, with ELASTICTRAIN_EVENT and other variables (cli/README.md)."},
    {"network", "Control connections and the data plane."},
    {"signals", "Signals to the `run` command."},
    {"environment", "Environment variables of workers."},
    {"trainer",
     "The built-in trainer. `command` and `[trainer]` exclude each other. Each key is also a flag of "
     "`elastictrain worker`."},
};

struct TypeAndValues {
  std::string type;    // in the terms of TOML
  std::string values;  // that are allowed; "": any
};

struct DescribeField {
  TypeAndValues operator()(const IntegerField& field) const {
    const std::string unlimited = field.may_be_unlimited ? ", or \"unlimited\"" : "";
    return {"integer", std::to_string(field.min) + " to " + std::to_string(field.max) + unlimited};
  }
  TypeAndValues operator()(const BoolField&) const { return {"boolean", "true, false"}; }
  TypeAndValues operator()(const TextField&) const { return {"string", ""}; }
  TypeAndValues operator()(const ListField& field) const {
    return {field.pairs ? "table of strings" : "array of strings", ""};
  }
  TypeAndValues operator()(const ChoiceField& field) const {
    return {"string", join({field.names.begin(), field.names.end()}, ", ")};
  }
  TypeAndValues operator()(const TrainerKeyField& trainer) const {
    return {type_of(trainer.field->type), trainer.field->allowed()};
  }
  TypeAndValues operator()(const NumberField& field) const { return {"float", range(field.min, field.max)}; }
  TypeAndValues operator()(const PolicyKeyField& field) const {
    const heuristics::ParameterSpec& parameter = *field.parameter;
    if (std::holds_alternative<bool>(parameter.default_value)) return {"boolean", "true, false"};
    if (std::holds_alternative<double>(parameter.default_value)) return {"float", range(parameter.min, parameter.max)};
    return {"string", join(parameter.choices, ", ")};
  }

 private:
  static std::string range(double min, double max) { return number_text(min) + " to " + number_text(max); }

  static std::string type_of(train::FieldType type) {
    switch (type) {
      case train::FieldType::kText:
        return "string";
      case train::FieldType::kInteger:
        return "integer";
      case train::FieldType::kNumber:
        return "float";
      case train::FieldType::kList:
        return "array";
    }
    panic("trainer field without a type");
  }
};

std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string code(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string code_or_none(const std::string& text) {
  return text.empty() ? "none" : code(text);
}

bool names_key(const SharedFlag& flag, const std::string& key) {
  const std::vector<std::string> keys = split(flag.keys, ' ');
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// One below the other: the key's own flags, those that it shares with others, the environment variable.
std::string ways_to_set(const KeySpec& key) {
  std::string ways;
  if (!key.flag.empty()) ways += code(join(split(key.flag, ','), ", ")) + "<br>";
  for (const SharedFlag& flag : kSharedFlags) {
    if (names_key(flag, key.name)) ways += code(flag.flag) + "<br>";
  }
  return ways + code(environment_name(key));
}

std::string row(const KeySpec& key) {
  const auto [type, values] = std::visit(DescribeField(), key.field);
  const std::string unit = key.unit.empty() ? "" : ", " + key.unit;
  return "| " + code(split_key(key.name).second) + " | " + type + unit + " | " + cell(values) + " | " +
         code_or_none(render_value(RunConfig(), key)) + " | " + ways_to_set(key) + " | " + cell(key.help) + " |\n";
}

std::string section_text(const KeySpec& key) {
  if (const auto* field = std::get_if<PolicyKeyField>(&key.field)) {
    const std::string name = code(field->policy->name);
    return "Policy " + name + ": " + cell(field->policy->help) + ".";
  }
  const std::string_view section = split_key(key.name).first;
  for (const auto& [name, text] : kSectionTexts) {
    if (name == section) return std::string(text);
  }
  panic("section without a text");
}

std::string section_head(const KeySpec& key) {
  const std::string section(split_key(key.name).first);
  return "\n## " + (section.empty() ? std::string("Job") : "[" + section + "]") + "\n\n" + section_text(key) +
         "\n\n| Key | Type, unit | Values | Default | Flag, environment variable | Meaning "
         "|\n|---|---|---|---|---|---|\n";
}

std::string render_shared_flags() {
  std::string text = "| Flag | Sets |\n|---|---|\n";
  for (const SharedFlag& flag : kSharedFlags) {
    std::string keys;
    for (const std::string& key : split(flag.keys, ' ')) keys += (keys.empty() ? "" : ", ") + code(key);
    const std::string argument(flag.argument);
    const std::string space = argument.empty() || argument.starts_with("[=") ? "" : " ";
    text += "| " + code(flag.flag + space + argument) + " | " + keys + " |\n";
  }
  return text;
}

}  // namespace

std::span<const SharedFlag> shared_flags() {
  return kSharedFlags;
}

std::string render_config_reference() {
  std::string page = kIntroduction + std::string("Flags that set several keys, or a key in a form of its own:\n\n") +
                     render_shared_flags();
  std::string_view section = "(none)";
  for (const KeySpec& key : schema()) {
    if (split_key(key.name).first != section) page += section_head(key);
    section = split_key(key.name).first;
    page += row(key);
  }
  return page;
}

std::pair<std::string, std::string> type_and_values(const KeySpec& key) {
  TypeAndValues found = std::visit(DescribeField(), key.field);
  return {std::move(found.type), std::move(found.values)};
}

namespace {

using SchemaJson = nlohmann::ordered_json;

SchemaJson list_schema(bool may_be_table) {
  const SchemaJson element = {{"type", {"string", "integer"}}};
  SchemaJson forms = SchemaJson::array({{{"type", "string"}}, {{"type", "array"}, {"items", element}}});
  if (may_be_table) forms.push_back({{"type", "object"}, {"additionalProperties", {{"type", "string"}}}});
  return {{"anyOf", forms}};
}

struct SchemaOfField {
  SchemaJson operator()(const IntegerField& field) const {
    const SchemaJson number = {{"type", "integer"}, {"minimum", field.min}, {"maximum", field.max}};
    if (!field.may_be_unlimited) return number;
    return {{"anyOf", SchemaJson::array({number, {{"const", "unlimited"}}})}};
  }
  SchemaJson operator()(const BoolField&) const { return {{"type", "boolean"}}; }
  SchemaJson operator()(const TextField&) const { return {{"type", "string"}}; }
  SchemaJson operator()(const ListField& field) const { return list_schema(field.pairs); }
  SchemaJson operator()(const ChoiceField& field) const {
    SchemaJson names = SchemaJson::array();
    for (const std::string_view name : field.names) names.push_back(std::string(name));
    return {{"enum", names}};
  }
  SchemaJson operator()(const TrainerKeyField& trainer) const {
    switch (trainer.field->type) {
      case train::FieldType::kText:
        return {{"type", "string"}};
      case train::FieldType::kInteger:
        return {{"type", "integer"}};
      case train::FieldType::kNumber:
        return {{"type", "number"}};
      case train::FieldType::kList:
        return list_schema(false);
    }
    panic("trainer field without a type");
  }
  SchemaJson operator()(const NumberField& field) const {
    return {{"type", "number"}, {"minimum", field.min}, {"maximum", field.max}};
  }
  SchemaJson operator()(const PolicyKeyField& field) const {
    const heuristics::ParameterSpec& parameter = *field.parameter;
    if (std::holds_alternative<bool>(parameter.default_value)) return {{"type", "boolean"}};
    if (std::holds_alternative<double>(parameter.default_value)) {
      return {{"type", "number"}, {"minimum", parameter.min}, {"maximum", parameter.max}};
    }
    if (parameter.choices.empty()) return {{"type", "string"}};
    return {{"enum", parameter.choices}};
  }
};

SchemaJson schema_of(const KeySpec& key) {
  SchemaJson schema = std::visit(SchemaOfField(), key.field);
  schema["description"] = key.help + (key.unit.empty() ? "" : " (" + key.unit + ")");
  const std::string value = render_value(RunConfig(), key);
  if (!value.empty()) schema["description"] = schema["description"].get<std::string>() + "; default: " + value;
  return schema;
}

SchemaJson& section_in(SchemaJson& root, const std::string& section) {
  SchemaJson* place = &root;
  if (section.empty()) return *place;
  for (const std::string& name : split(section, '.')) {
    SchemaJson& child = (*place)["properties"][name];
    if (child.is_null())
      child = {{"type", "object"}, {"additionalProperties", false}, {"properties", SchemaJson::object()}};
    place = &child;
  }
  return *place;
}

}  // namespace

std::string render_config_schema() {
  SchemaJson root = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                     {"title", "Configuration of elastictrain run"},
                     {"type", "object"},
                     {"additionalProperties", false},
                     {"properties", SchemaJson::object()}};
  for (const KeySpec& key : schema()) {
    const auto [section, name] = split_key(key.name);
    section_in(root, std::string(section))["properties"][std::string(name)] = schema_of(key);
  }
  return root.dump(1) + "\n";
}

}  // namespace elastictrain::cli
