#include "cli/config/table_keys.h"

#include <algorithm>

#include "cli/config/text.h"

namespace elastictrain::cli {
namespace {

// The end of the string that begins here with a quote, or of the text if it has no end.
std::size_t end_of_string(std::string_view toml, std::size_t begin) {
  const char quote = toml[begin];
  const std::string_view three = toml.substr(begin, 3);
  const bool is_long = three.size() == 3 && three[1] == quote && three[2] == quote;
  const std::string_view closing = toml.substr(begin, is_long ? 3 : 1);
  for (std::size_t at = begin + closing.size(); at < toml.size(); ++at) {
    if (toml.substr(at).starts_with(closing)) return at + closing.size();
    if (!is_long && toml[at] == '\n') return at;  // for the parser to complain about
    if (quote == '"' && toml[at] == '\\') ++at;
  }
  return toml.size();
}

bool is_part_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == ' ' || c == '\t';
}

}  // namespace

std::optional<std::size_t> find_too_deep(std::string_view toml) {
  std::size_t parts = 1;
  for (std::size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      at = end_of_string(toml, at);
    } else if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
    } else {
      if (c == '.') ++parts;
      if (c != '.' && !is_part_of_name(c)) parts = 1;
      ++at;
    }
    if (parts > kMaxKeyParts) {
      return 1 +
             static_cast<std::size_t>(std::count(toml.begin(), toml.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    }
  }
  return std::nullopt;
}

std::string range_of(std::int64_t low, std::int64_t high) {
  return "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
}

TableKey real_key(std::string name, int low, int high, double& target) {
  return {std::move(name), "a number from " + std::to_string(low) + " to " + std::to_string(high),
          [low, high, &target](const toml::node& node) {
            const auto value = node.value<double>();
            if (!value || !(*value >= low && *value <= high)) return false;
            target = *value;
            return true;
          }};
}

TableKey text_key(std::string name, std::string& target) {
  return {std::move(name), "a text", [&target](const toml::node& node) {
            const auto* value = node.as_string();
            if (value == nullptr) return false;
            target = value->get();
            return true;
          }};
}

TableKey list_key(std::string name, std::vector<std::string>& target) {
  return {std::move(name), "a list of texts", [&target](const toml::node& node) {
            const auto* list = node.as_array();
            if (list == nullptr) return false;
            for (const toml::node& one : *list) {
              if (one.as_string() == nullptr) return false;
              target.push_back(one.as_string()->get());
            }
            return true;
          }};
}

void TableReader::complain(const toml::source_region& region, const std::string& what) {
  messages_.push_back(file_ + ":" + std::to_string(region.begin.line) + ":" + std::to_string(region.begin.column) +
                      ": " + what);
}

void TableReader::read_table(const toml::table& table, const std::string& section, const TableKeys& keys) {
  for (const auto& [key, node] : table) read_key(std::string(key.str()), key.source(), node, section, keys, {});
}

void TableReader::read_key(const std::string& name, const toml::source_region& region, const toml::node& node,
                           const std::string& section, const TableKeys& keys, const std::vector<std::string>& others) {
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const TableKey& key) { return key.name == name; });
  const std::string full = section.empty() ? name : section + "." + name;
  if (found == keys.end()) {
    std::vector<std::string> names = others;
    for (const TableKey& key : keys) names.push_back(key.name);
    const auto meant = closest(name, names);
    const bool section_as_key = std::find(others.begin(), others.end(), name) != others.end();
    return complain(region,
                    section_as_key
                        ? "\"" + name + "\" is a section: write " + (name == "job" ? "[[job]]" : "[" + full + "]") +
                              " followed by its keys"
                        : "unknown key \"" + name + "\"" + (section.empty() ? "" : " in [" + section + "]") +
                              (meant ? "; did you mean \"" + *meant + "\"?" : "; its keys: " + join(names, ", ")));
  }
  if (!found->take(node)) complain(region, full + " must be " + found->wanted);
}

void read_toml(std::string_view text, const std::string& file_name, TableReader& reader,
               const std::function<void(const toml::table&)>& read) {
  if (const auto line = find_too_deep(text)) {
    reader.messages() = {file_name + ":" + std::to_string(*line) + ": a name has too many parts"};
    return;
  }
  try {
    read(toml::parse(text, file_name));
  } catch (const toml::parse_error& error) {
    reader.complain(error.source(), std::string(error.description()));
  }
}

}  // namespace elastictrain::cli
