// Purpose: fills any value with content that differs from its default and from that of every other field, so that a
// round trip through a codec shows each field that gets lost. A struct is visited by `each_field(value, visit)`, which
// the caller's codec supplies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/protocol/ids.h"

namespace elastictrain::testing {

template <class EachField>
class DistinctValues {
 public:
  explicit DistinctValues(EachField each_field) : each_field_(std::move(each_field)) {}

  void fill(bool& value) { value = !value; }
  void fill(std::string& value) { value = "text " + std::to_string(++last_); }
  template <class Tag>
  void fill(Id<Tag>& id) {
    fill(id.value);
  }
  template <class First, class Second>
  void fill(std::pair<First, Second>& pair) {
    fill(pair.first);
    fill(pair.second);
  }
  template <class T, std::size_t N>
  void fill(std::array<T, N>& values) {
    for (T& value : values) fill(value);
  }
  template <class T>
  void fill(std::optional<T>& value) {
    fill(value.emplace());
  }
  template <class T>
  void fill(std::vector<T>& values) {
    values.clear();
    for (int i = 0; i < 2; ++i) {
      T value{};
      fill(value);
      values.push_back(std::move(value));
    }
  }
  // As it is: the caller chooses the alternative.
  template <class... T>
  void fill(std::variant<T...>& value) {
    std::visit([this](auto& content) { fill(content); }, value);
  }
  template <class T>
  void fill(T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(++last_) + T(0.5);
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(++last_);
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(1);
    } else {
      each_field_(value, [this](auto& field) { fill(field); });
    }
  }

 private:
  EachField each_field_;
  std::uint64_t last_ = 100;  // no default is that large
};

// Calls `use` with one default value of every alternative.
template <class Variant, class Use, std::size_t... I>
void for_each_alternative(Use use, std::index_sequence<I...>) {
  (use(Variant(std::in_place_index<I>)), ...);
}
template <class Variant, class Use>
void for_each_alternative(Use use) {
  for_each_alternative<Variant>(use, std::make_index_sequence<std::variant_size_v<Variant>>());
}

}  // namespace elastictrain::testing
