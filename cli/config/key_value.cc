#include "cli/config/key_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

constexpr std::string_view kUnlimitedWord = "unlimited";

Error wrong(std::string message) {
  return {ErrorCode::kInvalid, std::move(message)};
}

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text) + "'";
}

struct DescribeValue {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(const std::string& value) const { return "the string " + in_quotes(value); }
  std::string operator()(const std::vector<std::string>&) const { return "a list"; }
};

// A duration with a unit for a key that has its unit in the name is the most common mistake, so the message converts
// it.
std::string duration_hint(const KeySpec& key, const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr || (key.unit != "milliseconds" && key.unit != "seconds")) return "";
  const auto duration = parse_duration_ms(*text);
  if (!duration.ok()) return "";
  const std::uint64_t amount = key.unit == "seconds" ? *duration / 1000 : *duration;
  return "; write " + std::string(split_key(key.name).second) + " = " + std::to_string(amount);
}

Error mismatch(const KeySpec& key, const Value& value) {
  return wrong("must be " + describe_type(key) + ", not " + std::visit(DescribeValue{}, value) +
               duration_hint(key, value));
}

std::string range_text(const IntegerField& field) {
  return "from " + std::to_string(field.min) + " to " + std::to_string(field.max);
}

struct Assign {
  RunConfig& config;
  const KeySpec& key;
  const Value& value;

  Status operator()(const IntegerField& field) const {
    const auto* word = std::get_if<std::string>(&value);
    if (field.may_be_unlimited && word != nullptr && *word == kUnlimitedWord) {
      field.at(config) = kNoLimit;
      return {};
    }
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr || *number < 0) return mismatch(key, value);
    const auto amount = static_cast<std::uint64_t>(*number);
    if (amount < field.min || amount > field.max) return mismatch(key, value);
    field.at(config) = amount;
    return {};
  }
  Status operator()(const BoolField& field) const {
    const auto* boolean = std::get_if<bool>(&value);
    if (boolean == nullptr) return mismatch(key, value);
    field.at(config) = *boolean;
    return {};
  }
  Status operator()(const TextField& field) const {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return mismatch(key, value);
    if (field.check != nullptr) {
      if (Status good = field.check(*text); !good.ok()) return good;
    }
    field.at(config) = *text;
    return {};
  }
  Status operator()(const ListField& field) const {
    const auto* list = std::get_if<std::vector<std::string>>(&value);
    if (list == nullptr) return mismatch(key, value);
    for (const std::string& element : *list) {
      Status good = field.check == nullptr ? Status() : field.check(element);
      if (!good.ok()) return good;
    }
    field.at(config) = *list;
    return {};
  }
  Status operator()(const ChoiceField& field) const {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return mismatch(key, value);
    const auto found = std::find(field.names.begin(), field.names.end(), *text);
    if (found == field.names.end()) return mismatch(key, value);
    field.set(config, static_cast<std::size_t>(found - field.names.begin()));
    return {};
  }
  Status operator()(const TrainerKeyField& trainer) const {
    const auto text = trainer_text(trainer.field->type);
    if (!text) return mismatch(key, value);
    config.use_trainer = true;
    return trainer.field->set(config.trainer, *text);
  }
  Status operator()(const NumberField& field) const {
    const auto amount = real();
    if (!amount || !(*amount >= field.min && *amount <= field.max)) return mismatch(key, value);
    field.at(config) = *amount;
    return {};
  }
  Status operator()(const PolicyKeyField& field) const {
    heuristics::Value given;
    if (const auto amount = real()) given = *amount;
    if (const auto* boolean = std::get_if<bool>(&value)) given = *boolean;
    if (const auto* text = std::get_if<std::string>(&value)) given = *text;
    const auto* text = std::get_if<std::string>(&given);
    if (const auto& check = field.parameter->check; text != nullptr && check) {
      if (const std::string problem = check(*text); !problem.empty()) return wrong("is not usable: " + problem);
    }
    const auto checked = heuristics::check_parameters(*field.policy, {{field.parameter->name, given}});
    if (!checked.problem.empty() || std::holds_alternative<std::vector<std::string>>(value)) {
      return mismatch(key, value);
    }
    config.policy.parameters[field.policy->name][field.parameter->name] = given;
    return {};
  }

 private:
  std::optional<double> real() const {
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
    const auto* amount = std::get_if<double>(&value);
    return amount == nullptr ? std::nullopt : std::optional(*amount);
  }
  // The trainer reads its options from text. The value in the file must still have the right type.
  std::optional<std::string> trainer_text(train::FieldType type) const {
    using train::FieldType;
    const bool numeric = type == FieldType::kInteger || type == FieldType::kNumber;
    if (const auto* text = std::get_if<std::string>(&value)) return numeric ? std::nullopt : std::optional(*text);
    if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
      return type == FieldType::kList ? std::optional(join(*list, ",")) : std::nullopt;
    }
    if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      return type == FieldType::kText ? std::nullopt : std::optional(std::to_string(*whole));
    }
    const auto* real = std::get_if<double>(&value);
    return real != nullptr && type == FieldType::kNumber ? std::optional(number_text(*real)) : std::nullopt;
  }
};

struct DescribeType {
  const KeySpec& key;

  std::string operator()(const IntegerField& field) const {
    return "a whole number" + (key.unit.empty() ? "" : " of " + key.unit) + " " + range_text(field) +
           (field.may_be_unlimited ? ", or \"unlimited\"" : "");
  }
  std::string operator()(const BoolField&) const { return "true or false"; }
  std::string operator()(const TextField&) const { return "text"; }
  std::string operator()(const ListField& field) const {
    return field.pairs ? "a table of strings" : "a list of strings";
  }
  std::string operator()(const ChoiceField& field) const {
    std::string names;
    for (const std::string_view name : field.names) names += (names.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    return "one of " + names;
  }
  std::string operator()(const TrainerKeyField& trainer) const {
    const std::string unit = key.unit.empty() ? "" : " of " + key.unit;
    switch (trainer.field->type) {
      case train::FieldType::kText:
        return "text";
      case train::FieldType::kInteger:
        return "a whole number" + unit;
      case train::FieldType::kNumber:
        return "a number" + unit;
      case train::FieldType::kList:
        return "a list" + unit;
    }
    panic("trainer field without a type");
  }
  std::string operator()(const NumberField& field) const {
    return "a number from " + number_text(field.min) + " to " + number_text(field.max);
  }
  std::string operator()(const PolicyKeyField& field) const {
    const heuristics::ParameterSpec& parameter = *field.parameter;
    if (std::holds_alternative<bool>(parameter.default_value)) return "true or false";
    if (std::holds_alternative<double>(parameter.default_value)) {
      return "a number from " + number_text(parameter.min) + " to " + number_text(parameter.max);
    }
    std::string names;
    for (const auto& name : parameter.choices) names += (names.empty() ? "\"" : ", \"") + name + "\"";
    if (names.empty()) return parameter.list_form.empty() ? "text" : "text, or a list of pairs of numbers";
    return "one of " + names;
  }
};

// Converts typed text to a value of the key's type.
struct Reread {
  std::string_view text;

  Value operator()(const IntegerField&) const {
    const auto number = parse_whole_number(trim(text));
    const bool fits = number && *number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return fits ? Value(static_cast<std::int64_t>(*number)) : Value(std::string(trim(text)));
  }
  Value operator()(const BoolField&) const {
    const std::string_view word = trim(text);
    if (word == "true" || word == "1" || word == "yes") return true;
    if (word == "false" || word == "0" || word == "no") return false;
    return std::string(text);
  }
  Value operator()(const TextField&) const { return std::string(text); }
  Value operator()(const ListField& field) const { return split(text, field.split_on_spaces ? ' ' : ','); }
  Value operator()(const ChoiceField&) const { return std::string(trim(text)); }
  Value operator()(const TrainerKeyField&) const { return std::string(text); }
  Value operator()(const NumberField&) const { return number_or_text(); }
  Value operator()(const PolicyKeyField& field) const {
    if (std::holds_alternative<bool>(field.parameter->default_value)) return (*this)(BoolField{});
    return std::holds_alternative<double>(field.parameter->default_value) ? number_or_text() : Value(std::string(text));
  }

 private:
  Value number_or_text() const {
    const auto amount = parse_number(trim(text));
    return amount ? Value(*amount) : Value(std::string(trim(text)));
  }
};

struct Render {
  const RunConfig& config;

  // at() takes a mutable config only because one accessor serves both reading and writing.
  RunConfig& writable() const { return const_cast<RunConfig&>(config); }
  std::string operator()(const IntegerField& field) const {
    const std::uint64_t amount = field.at(writable());
    return field.may_be_unlimited && amount == kNoLimit ? std::string(kUnlimitedWord) : std::to_string(amount);
  }
  std::string operator()(const BoolField& field) const { return field.at(writable()) ? "true" : "false"; }
  std::string operator()(const TextField& field) const { return field.at(writable()); }
  std::string operator()(const ListField& field) const {
    return join(field.at(writable()), field.split_on_spaces ? " " : ",");
  }
  std::string operator()(const ChoiceField& field) const { return std::string(field.names[field.get(config)]); }
  std::string operator()(const TrainerKeyField& trainer) const { return trainer.field->get(config.trainer); }
  std::string operator()(const NumberField& field) const { return number_text(field.at(writable())); }
  std::string operator()(const PolicyKeyField& field) const {
    heuristics::Value shown = field.parameter->default_value;
    const auto policy = config.policy.parameters.find(field.policy->name);
    if (policy != config.policy.parameters.end()) {
      const auto given = policy->second.find(field.parameter->name);
      if (given != policy->second.end()) shown = given->second;
    }
    if (const auto* boolean = std::get_if<bool>(&shown)) return *boolean ? "true" : "false";
    if (const auto* amount = std::get_if<double>(&shown)) return number_text(*amount);
    return std::get<std::string>(shown);
  }
};

}  // namespace

std::string number_text(double value) {
  std::array<char, 32> buffer;
  const double size = std::abs(value);
  const bool is_usual = value == 0 || (size >= 1e-4 && size <= 1e15);
  const auto format = is_usual ? std::chars_format::fixed : std::chars_format::general;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr};
}

std::string describe_type(const KeySpec& key) {
  return std::visit(DescribeType{key}, key.field);
}

Status assign(RunConfig& config, const KeySpec& key, const Value& value) {
  return std::visit(Assign{config, key, value}, key.field);
}

Status assign_text(RunConfig& config, const KeySpec& key, std::string_view text) {
  if (const auto* trainer = std::get_if<TrainerKeyField>(&key.field)) {
    config.use_trainer = true;
    return trainer->field->set(config.trainer, text);
  }
  return assign(config, key, std::visit(Reread{text}, key.field));
}

std::string render_value(const RunConfig& config, const KeySpec& key) {
  return std::visit(Render{config}, key.field);
}

}  // namespace elastictrain::cli
