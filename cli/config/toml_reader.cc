#include "cli/config/toml_reader.h"

#include <algorithm>
#include <optional>
#include <set>

#include "cli/config/key_value.h"
#include "cli/config/table_keys.h"
#include "cli/config/text.h"
#include "cli/config/toml_parser.h"

namespace elastictrain::cli {
namespace {

std::string place(const std::string& file, const toml::source_region& region) {
  return file + ":" + std::to_string(region.begin.line) + ":" + std::to_string(region.begin.column);
}

std::vector<std::string> section_names() {
  std::set<std::string> names;
  for (const KeySpec& key : schema()) {
    for (std::string_view name = split_key(key.name).first; !name.empty(); name = split_key(name).first) {
      names.emplace(name);
    }
  }
  names.erase("");
  return {names.begin(), names.end()};
}

// Names allowed in a section; at the top level also the section names.
std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> names;
  for (const KeySpec& key : schema()) {
    const auto [own, name] = split_key(key.name);
    if (own == section) names.emplace_back(name);
  }
  for (const std::string& inner : section_names()) {
    const auto [outer, name] = split_key(inner);
    if (outer == section) names.emplace_back(name);
  }
  return names;
}

// "grace_s" is not a typing error: the unit is wrong, and the stem shows which key is meant.
std::optional<std::string> same_quantity(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string_view stem = name.substr(0, name.rfind('_'));
  const auto found = std::find_if(candidates.begin(), candidates.end(), [stem, name](const std::string& candidate) {
    const std::string_view other = std::string_view(candidate).substr(0, candidate.rfind('_'));
    const bool has_unit = candidate.ends_with("_ms") || candidate.ends_with("_s") || candidate.ends_with("_bytes");
    return has_unit && (other == stem || other == name);
  });
  return found == candidates.end() ? std::nullopt : std::optional(*found);
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMostListed = 16;
  return names.empty() || names.size() > kMostListed ? "; all keys: elastictrain check --reference"
                                                     : "; its keys: " + join(names, ", ");
}

std::string hint(std::string_view section, std::string_view name) {
  const std::vector<std::string> candidates = names_in(section);
  auto meant = same_quantity(name, candidates);
  if (!meant) meant = closest(name, candidates);
  if (!meant) return list_of(candidates);
  const std::string full = (section.empty() ? "" : std::string(section) + ".") + *meant;
  const KeySpec* key = find_key(full);
  const std::string unit = key == nullptr || key->unit.empty() ? "" : " (in " + key->unit + ")";
  return "; did you mean \"" + *meant + "\"" + unit + "?";
}

class Reader {
 public:
  explicit Reader(const std::string& file_name) : file_name_(file_name) {}

  void read(const toml::table& table) {
    const std::vector<std::string> sections = section_names();
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      const bool is_section = std::find(sections.begin(), sections.end(), name) != sections.end();
      if (is_section && node.is_table()) {
        read_section(name, *node.as_table());
      } else if (is_section) {
        complain(key.source(), "\"" + name + "\" is a section: write [" + name + "] followed by its keys");
      } else if (node.is_table() && find_key(name) == nullptr) {
        complain(key.source(), "unknown section [" + name + "]" + hint("", name));
      } else {
        read_key(name, key.source(), node);
      }
    }
  }

  TomlFile take() { return std::move(file_); }
  void complain(std::size_t line, const std::string& what) {
    file_.mistakes.push_back(file_name_ + ":" + std::to_string(line) + ": " + what);
  }
  void complain(const toml::source_region& region, const std::string& what) {
    file_.mistakes.push_back(place(file_name_, region) + ": " + what);
  }

 private:
  void read_section(const std::string& section, const toml::table& table) {
    const std::vector<std::string> sections = section_names();
    for (const auto& [key, node] : table) {
      const std::string name = section + "." + std::string(key.str());
      if (node.is_table() && std::find(sections.begin(), sections.end(), name) != sections.end()) {
        read_section(name, *node.as_table());
      } else {
        read_key(name, key.source(), node);
      }
    }
  }

  void read_key(const std::string& name, const toml::source_region& region, const toml::node& node) {
    const KeySpec* key = find_key(name);
    if (key == nullptr) return complain(region, unknown_key_text(name));
    if (auto value = convert(*key, node)) {
      file_.entries.push_back({key, std::move(*value), place(file_name_, region)});
    } else {
      complain(region, name + " must be " + describe_type(*key));
    }
  }

  static std::optional<Value> convert(const KeySpec& key, const toml::node& node) {
    if (const auto* text = node.as_string()) return Value(text->get());
    if (const auto* whole = node.as_integer()) return Value(whole->get());
    if (const auto* boolean = node.as_boolean()) return Value(boolean->get());
    if (const auto* real = node.as_floating_point()) return Value(real->get());
    if (const auto* list = node.as_array()) {
      const auto* policy = std::get_if<PolicyKeyField>(&key.field);
      const bool takes_pairs = policy != nullptr && !policy->parameter->list_form.empty();
      return takes_pairs ? convert_numbers(policy->parameter->list_form, *list) : convert_list(*list);
    }
    const auto* list_field = std::get_if<ListField>(&key.field);
    const bool takes_table = list_field != nullptr && list_field->pairs && node.is_table();
    return takes_table ? convert_pairs(*node.as_table()) : std::nullopt;
  }

  static std::optional<Value> convert_list(const toml::array& list) {
    std::vector<std::string> elements;
    for (const toml::node& element : list) {
      if (const auto* text = element.as_string()) {
        elements.push_back(text->get());
      } else if (const auto* whole = element.as_integer()) {
        elements.push_back(std::to_string(whole->get()));
      } else {
        return std::nullopt;
      }
    }
    return Value(std::move(elements));
  }

  // [[0, 100], [60, 5]] as "FORM:0:100,60:5".
  static std::optional<Value> convert_numbers(const std::string& form, const toml::array& list) {
    std::string text = form + ":";
    for (const toml::node& element : list) {
      const auto* pair = element.as_array();
      const auto number_at = [pair](std::size_t i) { return (*pair)[i].value<double>(); };
      if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_number() || !(*pair)[1].is_number()) {
        return std::nullopt;
      }
      if (!text.ends_with(":")) text += ",";
      text += number_text(*number_at(0)) + ":" + number_text(*number_at(1));
    }
    return Value(text);
  }

  static std::optional<Value> convert_pairs(const toml::table& table) {
    std::vector<std::string> pairs;
    for (const auto& [name, node] : table) {
      const auto* text = node.as_string();
      if (text == nullptr) return std::nullopt;
      pairs.push_back(std::string(name.str()) + "=" + text->get());
    }
    return Value(std::move(pairs));
  }

  std::string file_name_;
  TomlFile file_;
};

}  // namespace

std::string unknown_key_text(std::string_view name) {
  const auto [section, key] = split_key(name);
  const std::string in = section.empty() ? "" : " in [" + std::string(section) + "]";
  return "unknown key \"" + std::string(key) + "\"" + in + hint(section, key);
}

TomlFile read_toml(std::string_view text, const std::string& file_name) {
  Reader reader(file_name);
  if (const auto line = find_too_deep(text)) {
    reader.complain(*line, "a name has more than " + std::to_string(kMaxKeyParts) + " parts");
    return reader.take();
  }
  try {
    reader.read(toml::parse(text, file_name));
  } catch (const toml::parse_error& error) {
    reader.complain(error.source(), std::string(error.description()));
  }
  return reader.take();
}

}  // namespace elastictrain::cli
