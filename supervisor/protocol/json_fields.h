// Purpose: structs as JSON objects and back. A codec names the fields of a struct once:
//
//   template <class Io, Of<Rate> T>
//   void each_field(Io& io, T& rate) {
//     io("workers", rate.workers, within(1, kMaxLeasedSlots));
//     io("views", rate.views, within(1, UINT32_MAX).optional());
//   }
//
// Writer and Reader go through it. A Reader checks each field against its rule and keeps the first thing that is wrong
// as a text for the sender, with the path to it; the field then keeps what the struct had, so that reading goes on.
// What one field alone does not say is checked by a function `check(Reader&, T&)` beside each_field(), after all
// fields.
//
// A type that is no number, text, list or struct has a Codec; enumerations with names, a NameCodec.
//
// Ownership: borrows the JSON value, the struct and the text. Thread: any, one at a time. Messages in msgpack have
// wire.h, and records of a run's journal, whose fields have versions, record_fields.h.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace elastictrain::json_fields {

template <class T, class Wanted>
concept Of = std::same_as<std::remove_const_t<T>, Wanted>;

// write<Json>(value); read(json, value): false if it is none; wanted(): what it must be.
template <class T>
struct Codec;

struct TextKind {
  const char* wanted;  // "a printable text"
  bool (*accepts)(const std::string&);
  std::string (*fit)(std::string) = nullptr;  // before it is written, so that the other side accepts it
};

// How a field is read and written. As it stands: it must be there, and any value of its type is right.
struct Rule {
  bool is_optional = false;  // missing or null: the struct keeps what it has
  bool omits_empty = false;  // a text, list or optional is written only if it is not empty
  bool omits_zero = false;   // a number is written only if it is not 0, a flag only if it is true
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  double least_real = -std::numeric_limits<double>::infinity();
  double most_real = std::numeric_limits<double>::infinity();
  std::size_t most_elements = std::numeric_limits<std::size_t>::max();  // of a list
  const TextKind* text_kind = nullptr;                                  // of a text, or of each in a list

  constexpr Rule optional() const;
  constexpr Rule unless_empty() const;  // optional as well
  constexpr Rule unless_zero() const;   // unless empty as well
  constexpr Rule at_most(std::size_t elements) const;
};

constexpr Rule Rule::optional() const {
  Rule rule = *this;
  rule.is_optional = true;
  return rule;
}
constexpr Rule Rule::unless_empty() const {
  Rule rule = optional();
  rule.omits_empty = true;
  return rule;
}
constexpr Rule Rule::unless_zero() const {
  Rule rule = unless_empty();
  rule.omits_zero = true;
  return rule;
}
constexpr Rule Rule::at_most(std::size_t elements) const {
  Rule rule = *this;
  rule.most_elements = elements;
  return rule;
}

// Whole numbers, or each in a list.
constexpr Rule within(std::int64_t least, std::uint64_t most) {
  Rule rule;
  rule.least = least;
  rule.most = most;
  return rule;
}
constexpr Rule within_real(double least, double most) {
  Rule rule;
  rule.least_real = least;
  rule.most_real = most;
  return rule;
}
// `kind` outlives the rule.
constexpr Rule text(const TextKind& kind) {
  Rule rule;
  rule.text_kind = &kind;
  return rule;
}
inline constexpr Rule kOptional = Rule().optional();
inline constexpr Rule kUnlessEmpty = Rule().unless_empty();
inline constexpr Rule kUnlessZero = Rule().unless_zero();

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
concept HasCodec = requires {
  Codec<T>::wanted();
};

// --- Writing. Json: nlohmann::json, or ordered_json where the order of the fields is that of each_field().

template <class Json>
class Writer {
 public:
  static constexpr bool kReads = false;

  // `usual`: the rule of fields that have none of their own, in the objects within as well.
  explicit Writer(Json& object, const Rule& usual = {}) : object_(object), usual_(usual) { object_ = Json::object(); }

  template <class T>
  void operator()(const char* name, const T& value) {
    (*this)(name, value, usual_);
  }
  template <class T>
  void operator()(const char* name, const T& value, const Rule& rule) {
    if (is_left_out(value, rule)) return;
    object_[name] = json_of(value, rule);
  }
  // An object of a struct's own fields.
  template <class Use>
  void object(const char* name, const Use& use) {
    Writer inner(object_[name], usual_);
    use(inner);
  }
  // For readers that are no program of ours.
  template <class T>
  void note(const char* name, const T& value) {
    object_[name] = value;
  }

  template <class T>
  Json json_of(const T& value, const Rule& rule) const {
    if constexpr (HasCodec<T>) {
      return Codec<T>::template write<Json>(value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      const bool fits = rule.text_kind == nullptr || rule.text_kind->fit == nullptr;
      return fits ? value : rule.text_kind->fit(value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      return value;
    } else if constexpr (kIsOptional<T>) {
      return value ? json_of(*value, rule) : Json();
    } else if constexpr (kIsList<T>) {
      Json list = Json::array();
      for (const auto& element : value) list.push_back(json_of(element, rule));
      return list;
    } else {
      Json fields;
      Writer inner(fields, usual_);
      each_field(inner, value);
      return fields;
    }
  }

 private:
  template <class T>
  static bool is_left_out(const T& value, const Rule& rule) {
    if constexpr (requires { value.empty(); }) {
      return rule.omits_empty && value.empty();
    } else if constexpr (kIsOptional<T>) {
      return rule.omits_empty && !value;
    } else if constexpr (std::is_arithmetic_v<T>) {
      return rule.omits_zero && value == T{};
    } else {
      return false;
    }
  }

  Json& object_;
  const Rule usual_;
};

template <class T>
nlohmann::json json_of(const T& value, const Rule& usual = {}) {
  nlohmann::json object;
  Writer<nlohmann::json> io(object, usual);
  each_field(io, value);
  return object;
}

// --- Reading

class Reader {
 public:
  static constexpr bool kReads = true;

  // `path`: where this object is in what was sent, "" at the top.
  Reader(const nlohmann::json& object, std::string path, std::string& problem, const Rule& usual = {})
      : object_(object), path_(std::move(path)), problem_(problem), usual_(usual) {}

  bool ok() const { return problem_.empty(); }
  bool has(const char* name) const { return find(name) != nullptr; }  // and it is not null
  // The field must be `wanted`.
  void wrong(std::string_view name, std::string_view wanted);
  // All of it must be `wanted`.
  void unknown(std::string_view wanted);

  template <class T>
  void operator()(const char* name, T& value) {
    (*this)(name, value, usual_);
  }
  template <class T>
  void operator()(const char* name, T& value, const Rule& rule) {
    const nlohmann::json* found = find(name);
    if (found != nullptr) return read(*found, name, value, rule);
    if (!rule.is_optional) wrong(name, wanted<T>(rule));
  }
  template <class Use>
  void object(const char* name, const Use& use) {
    const nlohmann::json* found = find(name);
    if (found == nullptr || !found->is_object()) return wrong(name, "an object");
    Reader inner(*found, path_of(name), problem_, usual_);
    use(inner);
  }
  template <class T>
  void note(const char*, const T&) {}

  // All of it, with its check.
  template <class T>
  void fields(T& value) {
    each_field(*this, value);
    if constexpr (requires { check(*this, value); }) check(*this, value);
  }

 private:
  const nlohmann::json* find(const char* name) const;
  std::string path_of(std::string_view name) const;

  template <class T>
  void read(const nlohmann::json& found, const std::string& name, T& value, const Rule& rule) {
    if constexpr (kIsOptional<T>) {
      if (found.is_null()) return value.reset();
      read(found, name, value.emplace(), rule);
    } else if constexpr (kIsList<T> && !HasCodec<T>) {
      read_list(found, name, value, rule);
    } else if constexpr (!HasCodec<T> && std::is_class_v<T> && !std::is_same_v<T, std::string>) {
      if (!found.is_object()) return wrong(name, "an object");
      Reader inner(found, path_of(name), problem_, usual_);
      inner.fields(value);
    } else if (!read_value(found, value, rule)) {
      wrong(name, wanted<T>(rule));
    }
  }

  template <class T>
  void read_list(const nlohmann::json& found, const std::string& name, std::vector<T>& values, const Rule& rule) {
    if (!found.is_array() || found.size() > rule.most_elements) return wrong(name, wanted<std::vector<T>>(rule));
    values.clear();
    for (std::size_t i = 0; i < found.size() && ok(); ++i) {
      T element{};
      read(found[i], name + "[" + std::to_string(i) + "]", element, rule);
      values.push_back(std::move(element));
    }
  }

  template <class T>
  static bool read_value(const nlohmann::json& found, T& value, const Rule& rule) {
    if constexpr (HasCodec<T>) {
      return Codec<T>::read(found, value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return read_text(found, value, rule);
    } else if constexpr (std::is_same_v<T, bool>) {
      return read_flag(found, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      return read_real(found, value, rule);
    } else if constexpr (std::is_signed_v<T>) {
      std::int64_t number = 0;
      if (!read_signed(found, number, std::max<std::int64_t>(rule.least, std::numeric_limits<T>::min()),
                       std::min<std::uint64_t>(rule.most, std::numeric_limits<T>::max()))) {
        return false;
      }
      value = static_cast<T>(number);
      return true;
    } else {
      std::uint64_t number = 0;
      if (!read_whole(found, number, rule, std::numeric_limits<T>::max())) return false;
      value = static_cast<T>(number);
      return true;
    }
  }
  static bool read_text(const nlohmann::json& found, std::string& value, const Rule& rule);
  static bool read_flag(const nlohmann::json& found, bool& value);
  static bool read_real(const nlohmann::json& found, double& value, const Rule& rule);
  static bool read_signed(const nlohmann::json& found, std::int64_t& value, std::int64_t least, std::uint64_t most);
  static bool read_whole(const nlohmann::json& found, std::uint64_t& value, const Rule& rule, std::uint64_t most);

  template <class T>
  static std::string wanted(const Rule& rule) {
    if constexpr (kIsOptional<T>) {
      return wanted<typename T::value_type>(rule);
    } else if constexpr (HasCodec<T>) {
      return Codec<T>::wanted();
    } else if constexpr (kIsList<T>) {
      return wanted_list(rule);
    } else if constexpr (std::is_same_v<T, std::string>) {
      return wanted_text(rule);
    } else if constexpr (std::is_same_v<T, bool>) {
      return "true or false";
    } else if constexpr (std::is_floating_point_v<T>) {
      return wanted_real(rule);
    } else if constexpr (std::is_integral_v<T>) {
      return wanted_whole(rule, std::is_signed_v<T>, static_cast<std::uint64_t>(std::numeric_limits<T>::max()));
    } else {
      return "an object";
    }
  }
  static std::string wanted_list(const Rule& rule);
  static std::string wanted_text(const Rule& rule);
  static std::string wanted_real(const Rule& rule);
  static std::string wanted_whole(const Rule& rule, bool is_signed, std::uint64_t most);

  const nlohmann::json& object_;
  std::string path_;
  std::string& problem_;
  const Rule usual_;
};

// The names of an enumeration whose values are 0, 1, …
template <class Enum, const auto& kNames>
struct NameCodec {
  static std::string wanted() {
    std::string names = "one of ";
    for (const auto& name : kNames) names += (names.back() == '"' ? ", \"" : "\"") + std::string(name) + "\"";
    return names;
  }
  template <class Json>
  static Json write(const Enum& value) {
    return std::string(kNames[static_cast<std::size_t>(value)]);
  }
  static bool read(const nlohmann::json& found, Enum& value) {
    for (std::size_t i = 0; found.is_string() && i < std::size(kNames); ++i) {
      if (found.get_ref<const std::string&>() != kNames[i]) continue;
      value = static_cast<Enum>(i);
      return true;
    }
    return false;
  }
};

}  // namespace elastictrain::json_fields
