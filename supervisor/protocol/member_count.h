// Purpose: the number of members of an aggregate, at compile time, so that a field list that lacks one is an error.
// Base classes and arrays as members are not supported; std::array, whose braces may be left out, is.
#pragma once

#include <cstddef>
#include <utility>

namespace elastictrain::protocol {

namespace counting {

// Converts to whatever a member is. Only in unevaluated expressions.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

template <std::size_t>
using Any = Anything;

// Each member is initialized in braces of its own, so that an aggregate member takes one of them.
template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires {
    T{{Any<I>{}}...};
  }
  || requires {
    T{Any<I>{}...};
  };
}

template <class T, std::size_t N = 0>
constexpr std::size_t count() {
  static_assert(N <= 64, "an aggregate with more members than are counted");
  if constexpr (takes<T>(std::make_index_sequence<N + 1>())) {
    return count<T, N + 1>();
  } else {
    return N;
  }
}

}  // namespace counting

template <class T>
constexpr std::size_t member_count() {
  return counting::count<T>();
}

}  // namespace elastictrain::protocol
