#include "cli/output/config_schema.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>

#include "cli/config/key_value.h"
#include "cli/config/schema.h"
#include "cli/config/text.h"

namespace elastictrain::cli {
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
