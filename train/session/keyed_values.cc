#include "train/session/keyed_values.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace elastictrain::session {
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
