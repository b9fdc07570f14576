#include "train/session/value_reduction.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "train/session/half_floats.h"

namespace elastictrain::session {
namespace {

constexpr std::size_t kGatheredBytes = 1U << 20;  // of all ranks together, at a time
constexpr std::size_t kWidenedFloats = 1U << 18;

template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value load(Stored stored) { return stored; }
  static Stored store(Value value) { return value; }
};

template <auto Load, auto Store>
struct Half {
  using Stored = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) { return Load(stored); }
  static Stored store(Value value) { return Store(value); }
};

// Sum and maximum: or. Product and minimum: and.
struct Bool {
  using Stored = std::uint8_t;
  using Value = std::uint8_t;
  static Value load(Stored stored) { return stored == 0 ? 0 : 1; }
  static Stored store(Value value) { return value == 0 ? 0 : 1; }
};

using Float16 = Half<from_half, to_half>;
using BFloat16 = Half<from_bfloat, to_bfloat>;

// Calls work(Type{}) with the element's type.
template <class Work>
auto with_type(DataType type, Work&& work) {
  switch (type) {
    case DataType::kFloat16:
      return work(Float16{});
    case DataType::kBFloat16:
      return work(BFloat16{});
    case DataType::kFloat64:
      return work(Plain<double>{});
    case DataType::kInt32:
      return work(Plain<std::int32_t>{});
    case DataType::kInt64:
      return work(Plain<std::int64_t>{});
    case DataType::kUInt8:
      return work(Plain<std::uint8_t>{});
    case DataType::kBool:
      return work(Bool{});
    case DataType::kFloat32:
      break;
  }
  return work(Plain<float>{});
}

// Integers wrap around.
template <class T>
T combined(T a, T b, bool is_sum) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::uint64_t;
    return static_cast<T>(is_sum ? static_cast<Wide>(a) + static_cast<Wide>(b)
                                 : static_cast<Wide>(a) * static_cast<Wide>(b));
  } else {
    return is_sum ? a + b : a * b;
  }
}

// A value that is not a number stays one.
template <class T>
T fold(T a, T b, Operation operation) {
  if (operation == Operation::kSum || operation == Operation::kProduct) {
    return combined(a, b, operation == Operation::kSum);
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  }
  return (operation == Operation::kMax) == (a > b) ? a : b;
}

// One part: folded over the ranks into `data`.
template <class Type>
void fold_ranks(std::span<std::byte> data, std::span<const std::byte> all, Operation operation) {
  const std::size_t size = sizeof(typename Type::Stored);
  const auto at = [&](std::size_t byte) {
    typename Type::Stored stored;
    std::memcpy(&stored, all.data() + byte, size);
    return Type::load(stored);
  };
  for (std::size_t i = 0; i < data.size(); i += size) {
    auto value = at(i);
    for (std::size_t from = i + data.size(); from < all.size(); from += data.size()) {
      value = fold(value, at(from), operation);
    }
    const auto stored = Type::store(value);
    std::memcpy(data.data() + i, &stored, size);
  }
}

Status gather_and_fold(comm::Communicator& communicator, std::span<std::byte> data, DataType type,
                       Operation operation) {
  const std::size_t ranks = communicator.world_size();
  const std::size_t size = size_of(type);
  const std::size_t part = std::max(kGatheredBytes / ranks / size, std::size_t{1}) * size;
  std::vector<std::byte> all(std::min(part, data.size()) * ranks);
  for (std::size_t offset = 0; offset < data.size(); offset += part) {
    const auto mine = data.subspan(offset, std::min(part, data.size() - offset));
    const auto gathered = std::span(all).first(mine.size() * ranks);
    if (auto status = communicator.all_gather(mine, gathered); !status) return status;
    fold_gathered(mine, gathered, type, operation);
  }
  return {};
}

// Summed as floats and rounded once.
template <class Type>
Status sum_widened(comm::Communicator& communicator, std::span<std::uint16_t> data) {
  std::vector<float> wide(std::min(kWidenedFloats, data.size()));
  for (std::size_t offset = 0; offset < data.size(); offset += kWidenedFloats) {
    const auto part = data.subspan(offset, std::min(kWidenedFloats, data.size() - offset));
    const auto floats = std::span(wide).first(part.size());
    std::transform(part.begin(), part.end(), floats.begin(), Type::load);
    if (auto status = communicator.all_reduce(floats); !status) return status;
    std::transform(floats.begin(), floats.end(), part.begin(), Type::store);
  }
  return {};
}

template <class T>
std::span<T> elements(std::span<std::byte> data) {
  return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
}

}  // namespace

std::size_t size_of(DataType type) {
  return with_type(type, [](auto t) { return sizeof(typename decltype(t)::Stored); });
}

void fold_gathered(std::span<std::byte> data, std::span<const std::byte> all, DataType type, Operation operation) {
  with_type(type, [&](auto t) { fold_ranks<decltype(t)>(data, all, operation); });
}

Status reduce_values(comm::Communicator& communicator, std::span<std::byte> data, DataType type, Operation operation) {
  if (data.empty()) return {};
  if (operation == Operation::kSum) {
    if (type == DataType::kFloat32) return communicator.all_reduce(elements<float>(data));
    if (type == DataType::kFloat16) return sum_widened<Float16>(communicator, elements<std::uint16_t>(data));
    if (type == DataType::kBFloat16) return sum_widened<BFloat16>(communicator, elements<std::uint16_t>(data));
  }
  return gather_and_fold(communicator, data, type, operation);
}

}  // namespace elastictrain::session
