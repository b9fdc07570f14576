// Purpose: writes and reads each type of a message in msgpack, field by field (fields.h). For codec.cc and code that
// assembles a frame itself; everything else uses codec.h, which costs a fraction of the compile time.
// Thread: pure functions. Failure: read() is false for what does not fit the type.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <msgpack.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/fields.h"

namespace elastictrain::protocol::wire {

template <class T>
inline constexpr bool kIsId = false;
template <class Tag>
inline constexpr bool kIsId<Id<Tag>> = true;
template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsVariant = false;
template <class... T>
inline constexpr bool kIsVariant<std::variant<T...>> = true;
template <class T>
inline constexpr bool kIsByteArray = false;
template <std::size_t N>
inline constexpr bool kIsByteArray<std::array<std::uint8_t, N>> = true;

using Packer = msgpack::packer<msgpack::sbuffer>;

// pack_double() sends whole numbers as integers; for 2^64, which is none, its conversion is undefined.
inline void write_double(Packer& out, double value) {
  if (value != 0x1p64) return static_cast<void>(out.pack(value));
  out.pack_bin_body("\xcb\x43\xf0\0\0\0\0\0\0", 9);
}

template <class T>
void write(Packer& out, const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    write_double(out, value);
  } else if constexpr (kIsId<T>) {
    out.pack(value.value);
  } else if constexpr (std::is_enum_v<T>) {
    out.pack(static_cast<std::uint64_t>(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    out.pack(value);
  } else if constexpr (kIsByteArray<T>) {
    out.pack_bin(static_cast<std::uint32_t>(value.size()));
    out.pack_bin_body(reinterpret_cast<const char*>(value.data()), static_cast<std::uint32_t>(value.size()));
  } else if constexpr (kIsVector<T>) {
    out.pack_array(static_cast<std::uint32_t>(value.size()));
    for (const auto& element : value) write(out, element);
  } else if constexpr (kIsVariant<T>) {
    out.pack_array(2);
    out.pack(static_cast<std::uint32_t>(value.index()));
    std::visit([&](const auto& alternative) { write(out, alternative); }, value);
  } else {
    std::apply(
        [&](const auto&... field) {
          out.pack_array(sizeof...(field));
          (write(out, field), ...);
        },
        fields(value));
  }
}

template <class T>
bool read(const msgpack::object& in, T& value);

template <class T>
bool read_integer(const msgpack::object& in, T& value) {
  if (in.type == msgpack::type::POSITIVE_INTEGER) {
    if (in.via.u64 > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return false;
    value = static_cast<T>(in.via.u64);
    return true;
  }
  if (in.type != msgpack::type::NEGATIVE_INTEGER || std::is_unsigned_v<T>) return false;
  if (in.via.i64 < static_cast<std::int64_t>(std::numeric_limits<T>::min())) return false;
  value = static_cast<T>(in.via.i64);
  return true;
}

template <class T>
bool read_real(const msgpack::object& in, T& value) {
  if (in.type == msgpack::type::POSITIVE_INTEGER)
    value = static_cast<T>(in.via.u64);
  else if (in.type == msgpack::type::NEGATIVE_INTEGER)
    value = static_cast<T>(in.via.i64);
  else if (in.type == msgpack::type::FLOAT32 || in.type == msgpack::type::FLOAT64)
    value = static_cast<T>(in.via.f64);
  else
    return false;
  return true;
}

template <class T>
bool read_vector(const msgpack::object& in, std::vector<T>& value) {
  if (in.type != msgpack::type::ARRAY) return false;
  value.clear();
  value.resize(in.via.array.size);
  for (std::uint32_t i = 0; i < in.via.array.size; ++i) {
    if (!read(in.via.array.ptr[i], value[i])) return false;
  }
  return true;
}

template <class Variant, std::size_t I = 0>
bool read_alternative(std::uint64_t index, const msgpack::object& in, Variant& value) {
  if constexpr (I < std::variant_size_v<Variant>) {
    if (index == I) return read(in, value.template emplace<I>());
    return read_alternative<Variant, I + 1>(index, in, value);
  } else {
    return false;
  }
}

template <class Variant>
bool read_variant(const msgpack::object& in, Variant& value) {
  if (in.type != msgpack::type::ARRAY || in.via.array.size != 2) return false;
  const msgpack::object& index = in.via.array.ptr[0];
  if (index.type != msgpack::type::POSITIVE_INTEGER) return false;
  return read_alternative(index.via.u64, in.via.array.ptr[1], value);
}

template <class T>
bool read_struct(const msgpack::object& in, T& value) {
  if (in.type != msgpack::type::ARRAY) return false;
  std::uint32_t next = 0;
  const auto read_next = [&](auto& field) {
    const std::uint32_t i = next++;
    return i >= in.via.array.size || read(in.via.array.ptr[i], field);
  };
  return std::apply([&](auto&... field) { return (read_next(field) && ...); }, fields(value));
}

// Highest value of each enumeration that travels; anything above it is malformed.
constexpr std::uint64_t last_value(ChangeKind) {
  return static_cast<std::uint64_t>(ChangeKind::kUpdatePlan);
}
constexpr std::uint64_t last_value(Topology) {
  return static_cast<std::uint64_t>(Topology::kClique);
}
constexpr std::uint64_t last_value(Synchronization) {
  return static_cast<std::uint64_t>(Synchronization::kPairAveraging);
}
constexpr std::uint64_t last_value(StepPlace) {
  return static_cast<std::uint64_t>(StepPlace::kHalted);
}
constexpr std::uint64_t last_value(ProgramPhase) {
  return static_cast<std::uint64_t>(ProgramPhase::kCheckpoint);
}
constexpr std::uint64_t last_value(Question) {
  return kQuestionNames.size() - 1;
}

template <class T>
bool read(const msgpack::object& in, T& value) {
  if constexpr (kIsId<T>) {
    return read_integer(in, value.value);
  } else if constexpr (std::is_enum_v<T>) {
    std::uint64_t number = 0;
    if (!read_integer(in, number) || number > last_value(T{})) return false;
    value = static_cast<T>(number);
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (in.type != msgpack::type::BOOLEAN) return false;
    value = in.via.boolean;
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    return read_integer(in, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return read_real(in, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (in.type != msgpack::type::STR) return false;
    value.assign(in.via.str.ptr, in.via.str.size);
    return true;
  } else if constexpr (kIsByteArray<T>) {
    if (in.type != msgpack::type::BIN || in.via.bin.size != value.size()) return false;
    std::memcpy(value.data(), in.via.bin.ptr, value.size());
    return true;
  } else if constexpr (kIsVector<T>) {
    return read_vector(in, value);
  } else if constexpr (kIsVariant<T>) {
    return read_variant(in, value);
  } else {
    return read_struct(in, value);
  }
}

inline void put_length(char* out, std::size_t length) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<char>((length >> (8 * i)) & 0xff);
}

}  // namespace elastictrain::protocol::wire
