#include "train/session/group_collectives.h"

#include <algorithm>
#include <utility>

#include "train/session/value_reduction.h"

namespace elastictrain::session {
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

}  // namespace elastictrain::session
