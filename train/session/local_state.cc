#include "train/session/local_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "train/state/state_buffers.h"

namespace elastictrain::session {
namespace {

constexpr std::string_view kName = "elastictrain/local";
constexpr std::size_t kLayoutBytes = sizeof(std::uint64_t);

}  // namespace

bool LocalState::add(std::string_view name, std::span<std::byte> memory) {
  if (!names_.emplace(name).second) return false;
  layout_ = state::hash_bytes(name.data(), name.size(), layout_ + memory.size());
  items_ += std::string(name) + " of each rank, " + std::to_string(memory.size()) + " bytes\n";
  bytes_ += memory.size();
  parts_.push_back(memory);
  return true;
}

void LocalState::take() {
  mine_.resize(kLayoutBytes + bytes_);
  std::memcpy(mine_.data(), &layout_, kLayoutBytes);
  auto at = mine_.begin() + kLayoutBytes;
  for (const auto part : parts_) at = std::copy(part.begin(), part.end(), at);
}

Status LocalState::gather(comm::Communicator& others) {
  everybodys_.resize(mine_.size() * others.world_size());
  return others.all_gather(mine_, everybodys_);
}

bool LocalState::commit(EarlyValues& early, bool in_step) {
  const auto values = std::exchange(everybodys_, {});
  if (values.empty()) return true;
  if (!early.has_room(kName, values.size())) return false;
  early.share(kName, values, in_step);
  return true;
}

bool LocalState::adopt(const EarlyValues& early, std::uint32_t rank) {
  if (is_empty()) return true;
  const auto* values = early.find(kName);
  const std::size_t stride = kLayoutBytes + bytes_;
  if (values == nullptr || values->size() < (rank + std::size_t{1}) * stride || values->size() % stride != 0)
    return false;
  const auto* from = values->data() + rank * stride;
  if (std::memcmp(from, &layout_, kLayoutBytes) != 0) return false;
  from += kLayoutBytes;
  for (const auto part : parts_) {
    std::copy_n(from, part.size(), part.begin());
    from += part.size();
  }
  return true;
}

}  // namespace elastictrain::session
