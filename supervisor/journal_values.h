// Purpose: writes each type of a record's field to JSON and reads it. For journal_codec.cc only.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "supervisor/core/pure/message_text.h"
#include "supervisor/core/pure/records.h"
#include "supervisor/journal_codec.h"
#include "supervisor/protocol/json_text.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::journal_values {

using Json = nlohmann::ordered_json;

// --- Enumerations, by their names

inline std::string name_of_choice(protocol::ChangeKind kind) {
  return core::change_name(kind);
}
inline std::string name_of_choice(protocol::Topology topology) {
  return std::string(protocol::name_of(topology));
}
inline std::string name_of_choice(protocol::Synchronization synchronization) {
  return std::string(protocol::name_of(synchronization));
}
inline std::optional<protocol::ChangeKind> choice_named(const std::string& name, protocol::ChangeKind) {
  return core::change_named(name);
}
inline std::optional<protocol::Topology> choice_named(const std::string& name, protocol::Topology) {
  return protocol::topology_named(name);
}
inline std::optional<protocol::Synchronization> choice_named(const std::string& name, protocol::Synchronization) {
  return protocol::synchronization_named(name);
}

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
concept HasId = requires(T value) {
  { value.value } -> std::convertible_to<std::uint32_t>;
};

// --- To JSON

inline std::string encode(bool value) {
  return value ? "true" : "false";
}
inline std::string encode(double value) {
  return real_json(value);
}
inline std::string encode(const std::string& value) {
  return quoted_json(value);
}
inline std::string encode(const core::record::RawJson& value) {
  return value.text;
}
template <class T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) std::string encode(T value) {
  return std::to_string(value);
}
template <HasId T>
std::string encode(const T& id) {
  return std::to_string(id.value);
}
template <class T>
requires std::is_enum_v<T> std::string encode(T value) {
  return quoted_json(name_of_choice(value));
}
template <class T>
std::string encode(const std::vector<T>& values) {
  return list_json(values, [](const T& value) { return encode(value); });
}

// --- From JSON; false: the value keeps what it was

inline bool decode(const Json& json, bool& value) {
  if (!json.is_boolean()) return false;
  value = json.get<bool>();
  return true;
}
inline bool decode(const Json& json, double& value) {
  if (!json.is_number()) return false;
  value = json.get<double>();
  return true;
}
inline bool decode(const Json& json, std::string& value) {
  if (!json.is_string()) return false;
  value = json.get<std::string>();
  return true;
}
inline bool decode(const Json& json, core::record::RawJson& value) {
  value.text = json_text(json);
  return true;
}
template <class T>
requires std::is_unsigned_v<T>
bool decode(const Json& json, T& value) {
  constexpr std::uint64_t kMax = sizeof(T) < sizeof(std::uint64_t) ? kMaxSmallJournalNumber : kMaxJournalNumber;
  if (!json.is_number_unsigned()) return false;
  const auto number = json.get<std::uint64_t>();
  if (number > kMax) return false;
  value = static_cast<T>(number);
  return true;
}
template <class T>
requires(std::is_integral_v<T>&& std::is_signed_v<T>) bool decode(const Json& json, T& value) {
  if (!json.is_number_integer()) return false;
  const auto number = json.get<std::int64_t>();
  if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) return false;
  value = static_cast<T>(number);
  return true;
}
template <HasId T>
bool decode(const Json& json, T& id) {
  return decode(json, id.value);
}
template <class T>
requires std::is_enum_v<T>
bool decode(const Json& json, T& value) {
  std::string name;
  if (!decode(json, name)) return false;
  const auto found = choice_named(name, T{});
  if (found) value = *found;
  return found.has_value();
}
// A damaged element of a list of numbers counts as 0, so that the others keep their places; what is no number at all is
// left out. A single value is a list of one: version 1 wrote some lists so.
template <class T>
bool decode(const Json& json, std::vector<T>& values) {
  values.clear();
  const auto add = [&](const Json& element) {
    T value{};
    constexpr bool is_number = std::is_arithmetic_v<T> || HasId<T>;
    if (decode(element, value) || (is_number && element.is_number_unsigned())) values.push_back(value);
  };
  if (!json.is_array()) {
    add(json);
    return !values.empty();
  }
  for (const Json& element : json) add(element);
  return true;
}
template <class T>
bool decode(const Json& json, std::optional<T>& value) {
  T content{};
  if (!decode(json, content)) return false;
  value = std::move(content);
  return true;
}

// --- The names of the types, for the page of the format

template <class T>
std::string type_name() {
  if constexpr (kIsOptional<T>) {
    return type_name<typename T::value_type>();
  } else if constexpr (std::is_same_v<T, core::record::NamedNumbers>) {
    return "numbers under names of their own";
  } else if constexpr (kIsList<T>) {
    return "list: " + type_name<typename T::value_type>();
  } else if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_same_v<T, WorkerId>) {
    return "worker";
  } else if constexpr (std::is_same_v<T, AgentId>) {
    return "agent";
  } else if constexpr (std::is_same_v<T, core::record::RawJson>) {
    return "object";
  } else if constexpr (std::is_integral_v<T>) {
    return "integer";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else {
    return std::is_enum_v<T> ? "name" : "text";
  }
}

}  // namespace elastictrain::journal_values
