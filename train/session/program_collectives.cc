#include "train/session/program_collectives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>
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

namespace {

template <class T>
Result<std::vector<T>> from_all(comm::Communicator& all, T mine) {
  std::vector<T> values(all.world_size());
  const auto status = all.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(values)));
  if (!status) return status.error();
  return values;
}

}  // namespace

Group::Group(comm::Communicator& all, std::vector<std::uint32_t> ranks, bool is_direct)
    : all_(all), ranks_(std::move(ranks)), is_direct_(is_direct) {}

Result<Group> Group::meet(comm::Communicator& all, std::uint64_t number) {
  const auto numbers = from_all(all, number);
  if (!numbers) return numbers.error();
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < numbers->size(); ++rank) {
    if ((*numbers)[rank] == number) ranks.push_back(rank);
  }
  const std::uint32_t first = ranks.front();
  const bool reaches = first == all.rank() || all.reaches(first);
  const auto direct = from_all(all, static_cast<std::uint8_t>(reaches ? 1 : 0));
  if (!direct) return direct.error();
  const bool is_direct = std::all_of(direct->begin(), direct->end(), [](std::uint8_t each) { return each == 1; });
  return Group(all, std::move(ranks), is_direct);
}

std::uint32_t Group::place() const {
  return static_cast<std::uint32_t>(std::find(ranks_.begin(), ranks_.end(), all_.rank()) - ranks_.begin());
}

Status Group::all_gather(std::span<const std::byte> mine, std::span<std::byte> gathered) {
  if (mine.empty()) return {};
  if (!is_direct_) return gather_through_all(mine, gathered);
  if (auto status = collect(mine, gathered); !status) return status;
  return spread(gathered);
}

// In parts of equal size for all groups: other groups may have other amounts of data.
Status Group::gather_through_all(std::span<const std::byte> mine, std::span<std::byte> gathered) {
  const auto sizes = from_all(all_, std::uint64_t{mine.size()});
  if (!sizes) return sizes.error();
  const std::size_t largest = *std::max_element(sizes->begin(), sizes->end());
  std::vector<std::byte> sent(largest);
  std::copy(mine.begin(), mine.end(), sent.begin());
  std::vector<std::byte> received(largest * all_.world_size());
  if (auto status = all_.all_gather(sent, received); !status) return status;
  auto at = gathered.begin();
  for (const std::uint32_t rank : ranks_) {
    const auto block = received.begin() + static_cast<std::ptrdiff_t>(rank * largest);
    at = std::copy_n(block, mine.size(), at);
  }
  return {};
}

Status Group::collect(std::span<const std::byte> mine, std::span<std::byte> gathered) {
  if (!is_first()) return all_.send(mine, ranks_.front());
  std::copy(mine.begin(), mine.end(), gathered.begin());
  for (std::size_t i = 1; i < ranks_.size(); ++i) {
    if (auto status = all_.receive(gathered.subspan(i * mine.size(), mine.size()), ranks_[i]); !status) return status;
  }
  return {};
}

Status Group::spread(std::span<std::byte> data) {
  if (!is_first()) return all_.receive(data, ranks_.front());
  for (std::size_t i = 1; i < ranks_.size(); ++i) {
    if (auto status = all_.send(data, ranks_[i]); !status) return status;
  }
  return {};
}

Status Group::reduce(std::span<std::byte> data, DataType type, Operation operation) {
  std::vector<std::byte> gathered(data.size() * ranks_.size());
  if (!is_direct_) {
    if (auto status = gather_through_all(data, gathered); !status) return status;
    fold_gathered(data, gathered, type, operation);
    return {};
  }
  if (data.empty()) return {};
  if (auto status = collect(data, gathered); !status) return status;
  if (is_first()) fold_gathered(data, gathered, type, operation);
  return spread(data);
}

Status Group::broadcast(std::span<std::byte> data, std::uint32_t root) {
  if (!is_direct_) {
    std::vector<std::byte> gathered(data.size() * ranks_.size());
    if (auto status = gather_through_all(data, gathered); !status) return status;
    std::copy_n(gathered.begin() + static_cast<std::ptrdiff_t>(root * data.size()), data.size(), data.begin());
    return {};
  }
  if (data.empty() || ranks_.size() == 1) return {};
  if (root != 0 && place() == root) {
    if (auto status = all_.send(data, ranks_.front()); !status) return status;
  }
  if (root != 0 && is_first()) {
    if (auto status = all_.receive(data, ranks_[root]); !status) return status;
  }
  return spread(data);
}

Status ProgramData::share(Bucket& bucket) {
  restore_or_copy(bucket);
  return gate_.run("sharing the program's data", [&] { return bucket.share(*assignment_.communicator); });
}

void ProgramData::reserve_copy(Bucket& bucket) {
  copies_.make_room(bucket.copy, bucket.index, (bucket.bytes.size() + sizeof(float) - 1) / sizeof(float));
}

void ProgramData::restore_or_copy(Bucket& bucket) {
  const auto bytes = bucket.bytes;
  if (bytes.empty()) return;
  if (std::exchange(bucket.copied, true)) {
    std::memcpy(bytes.data(), bucket.copy.data(), bytes.size());
    return;
  }
  reserve_copy(bucket);
  std::memcpy(bucket.copy.data(), bytes.data(), bytes.size());
}

namespace {

using KeyRecord = std::array<char, KeyedValues::kMaxKeyBytes>;  // ends with zeros

std::string key_in(const KeyRecord& record) {
  return {record.begin(), std::find(record.begin(), record.end(), '\0')};
}

}  // namespace

void KeyedValues::begin_step() {
  const std::lock_guard lock(mutex_);
  order_.clear();
  work_.clear();
  closed_ = false;
}

bool KeyedValues::has_started(std::string_view key) {
  const std::lock_guard lock(mutex_);
  return work_.contains(key);
}

void KeyedValues::start(std::string_view key, Collective work) {
  {
    const std::lock_guard lock(mutex_);
    work_.emplace(key, std::move(work));
    order_.emplace_back(key);
  }
  changed_.notify_all();
}

void KeyedValues::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void KeyedValues::reopen() {
  const std::lock_guard lock(mutex_);
  closed_ = false;
}

Status KeyedValues::run(std::size_t place, comm::Communicator& others) {
  KeyRecord record{};
  if (others.rank() == 0) {
    const std::lock_guard lock(mutex_);
    std::copy(order_[place].begin(), order_[place].end(), record.begin());
  }
  if (auto sent = others.broadcast(std::as_writable_bytes(std::span(record)), 0); !sent) return sent;
  const auto work = await(key_in(record), place);
  return work ? (*work)(others) : work.error();
}

Result<Collective> KeyedValues::await(const std::string& key, std::size_t place) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || work_.contains(key); });
  const auto found = work_.find(key);
  if (found != work_.end()) return found->second;
  return Error{ErrorCode::kInvalid, "the first rank has started \"" + key + "\" as number " +
                                        std::to_string(place + 1) +
                                        " of the values of this step that have keys, and this rank has not started it: "
                                        "all ranks must start the same keys between two other calls"};
}

}  // namespace elastictrain::session
