#include "supervisor/cluster/line_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "supervisor/cluster/lease_protocol.h"

namespace elastictrain::cluster {
namespace {

using nlohmann::json;

bool is_printable(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

bool is_text(const json& value, std::size_t max_bytes) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.size() <= max_bytes && is_printable(text);
}

bool is_name(const json& value) {
  return is_text(value, kMaxNameBytes) && !value.get_ref<const std::string&>().empty();
}

std::string range(std::uint64_t least, std::uint64_t most) {
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

const char* const kNameWanted = "a printable text of 1 to 255 bytes";

}  // namespace

const json* LineReader::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool LineReader::is_null(const char* name) const {
  return find(name) == nullptr;
}

void LineReader::wrong(const std::string& name, const std::string& wanted) {
  if (problem_.empty()) problem_ = "\"" + (path_.empty() ? name : path_ + "." + name) + "\" must be " + wanted;
}

void LineReader::unknown(const std::string& known) {
  if (problem_.empty()) problem_ = "a message must be " + known;
}

std::uint64_t LineReader::number(const char* name, std::uint64_t least, std::uint64_t most,
                                 std::optional<std::uint64_t> otherwise) {
  const json* value = find(name);
  if (value == nullptr && otherwise) return *otherwise;
  if (value != nullptr && value->is_number_unsigned()) {
    const auto number = value->get<std::uint64_t>();
    if (number >= least && number <= most) return number;
  }
  wrong(name, range(least, most));
  return least;
}

std::uint32_t LineReader::whole(const char* name, std::uint32_t least, std::uint32_t most,
                                std::optional<std::uint32_t> otherwise) {
  return static_cast<std::uint32_t>(number(name, least, most, otherwise));
}

double LineReader::real(const char* name, double least, double most) {
  const json* value = find(name);
  if (value != nullptr && value->is_number()) {
    const auto number = value->get<double>();
    if (number >= least && number <= most) return number;
  }
  char bounds[80];
  std::snprintf(bounds, sizeof bounds, "a number from %g to %g", least, most);
  wrong(name, bounds);
  return least;
}

bool LineReader::flag(const char* name) {
  const json* value = find(name);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  wrong(name, "true or false");
  return false;
}

std::string LineReader::name(const char* name) {
  const json* value = find(name);
  if (value != nullptr && is_name(*value)) return value->get<std::string>();
  wrong(name, kNameWanted);
  return "";
}

std::string LineReader::text(const char* name) {
  const json* value = find(name);
  if (value == nullptr) return "";
  if (is_text(*value, kMaxTextBytes)) return value->get<std::string>();
  wrong(name, "a printable text of at most " + std::to_string(kMaxTextBytes) + " bytes");
  return "";
}

const json* LineReader::list(const char* name, std::size_t max_size) {
  const json* value = find(name);
  if (value == nullptr) return nullptr;
  if (value->is_array() && value->size() <= max_size) return value;
  wrong(name, "a list of at most " + std::to_string(max_size));
  return nullptr;
}

std::vector<std::uint32_t> LineReader::numbers(const char* name, std::size_t max_size, std::uint32_t most) {
  std::vector<std::uint32_t> found;
  const json* values = list(name, max_size);
  if (values == nullptr) return found;
  for (const json& value : *values) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
      wrong(name, "a list of whole numbers up to " + std::to_string(most));
      return {};
    }
    found.push_back(static_cast<std::uint32_t>(value.get<std::uint64_t>()));
  }
  return found;
}

std::vector<std::string> LineReader::names(const char* name, std::size_t max_size) {
  std::vector<std::string> found;
  const json* values = list(name, max_size);
  if (values == nullptr) return found;
  for (const json& value : *values) {
    if (!is_name(value)) {
      wrong(name, std::string("a list of texts, each ") + kNameWanted);
      return {};
    }
    found.push_back(value.get<std::string>());
  }
  return found;
}

void LineReader::each(const char* name, std::size_t max_size, const Use& use) {
  const json* values = list(name, max_size);
  if (values == nullptr) return;
  const std::string prefix = path_.empty() ? name : path_ + "." + name;
  for (std::size_t i = 0; i < values->size() && ok(); ++i) {
    if (!(*values)[i].is_object()) return wrong(name, "a list of objects");
    LineReader entry((*values)[i], prefix + "[" + std::to_string(i) + "]", problem_);
    use(entry);
  }
}

void LineReader::object(const char* name, const Use& use) {
  const json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_object()) return wrong(name, "an object");
  LineReader inner(*value, path_.empty() ? name : path_ + "." + name, problem_);
  use(inner);
}

void LineReader::required(const char* name, const Use& use) {
  if (is_null(name)) return wrong(name, "an object");
  object(name, use);
}

}  // namespace elastictrain::cluster
