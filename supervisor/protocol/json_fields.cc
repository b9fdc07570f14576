#include "supervisor/protocol/json_fields.h"

#include <algorithm>
#include <cstdio>

namespace elastictrain::json_fields {

using nlohmann::json;

const json* Reader::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string Reader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

void Reader::wrong(std::string_view name, std::string_view wanted) {
  if (problem_.empty()) problem_ = "\"" + path_of(name) + "\" must be " + std::string(wanted);
}

void Reader::unknown(std::string_view wanted) {
  if (problem_.empty()) problem_ = "a message must be " + std::string(wanted);
}

bool Reader::read_text(const json& found, std::string& value, const Rule& rule) {
  if (!found.is_string()) return false;
  const auto& text = found.get_ref<const std::string&>();
  if (rule.text_kind != nullptr && !rule.text_kind->accepts(text)) return false;
  value = text;
  return true;
}

bool Reader::read_flag(const json& found, bool& value) {
  if (found.is_boolean()) value = found.get<bool>();
  return found.is_boolean();
}

bool Reader::read_real(const json& found, double& value, const Rule& rule) {
  if (!found.is_number()) return false;
  const auto number = found.get<double>();
  if (!(number >= rule.least_real && number <= rule.most_real)) return false;
  value = number;
  return true;
}

bool Reader::read_signed(const json& found, std::int64_t& value, std::int64_t least, std::uint64_t most) {
  if (!found.is_number_integer() || (found.is_number_unsigned() && found.get<std::uint64_t>() > most)) return false;
  const auto number = found.get<std::int64_t>();
  if (number < least) return false;
  value = number;
  return true;
}

bool Reader::read_whole(const json& found, std::uint64_t& value, const Rule& rule, std::uint64_t most) {
  if (!found.is_number_unsigned()) return false;
  const auto number = found.get<std::uint64_t>();
  if (number > std::min(most, rule.most)) return false;
  if (rule.least > 0 && number < static_cast<std::uint64_t>(rule.least)) return false;
  value = number;
  return true;
}

std::string Reader::wanted_list(const Rule& rule) {
  if (rule.most_elements == std::numeric_limits<std::size_t>::max()) return "a list";
  return "a list of at most " + std::to_string(rule.most_elements);
}

std::string Reader::wanted_text(const Rule& rule) {
  return rule.text_kind == nullptr ? "a text" : rule.text_kind->wanted;
}

std::string Reader::wanted_real(const Rule& rule) {
  if (rule.least_real == -std::numeric_limits<double>::infinity()) return "a number";
  char bounds[80];
  std::snprintf(bounds, sizeof bounds, "a number from %g to %g", rule.least_real, rule.most_real);
  return bounds;
}

std::string Reader::wanted_whole(const Rule& rule, bool is_signed, std::uint64_t most) {
  const bool is_bounded = rule.most < most;
  if (!is_bounded && !is_signed && rule.least <= 0) return "a whole number that is not negative";
  if (!is_bounded && is_signed) return "a whole number";
  const std::int64_t least = is_signed ? rule.least : std::max<std::int64_t>(rule.least, 0);
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(std::min(rule.most, most));
}

}  // namespace elastictrain::json_fields
