#include "train/session/seat_builder.h"

#include <utility>

#include "train/session/background_thread.h"

namespace elastictrain::session {

SeatBuilder::SeatBuilder(Build build, Done done) : build_(std::move(build)), done_(std::move(done)) {}

SeatBuilder::~SeatBuilder() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (auto& [generation, entry] : entries_) entry->cancel.cancel();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SeatBuilder::start(protocol::GenerationPlan plan, std::uint32_t rank) {
  {
    const std::lock_guard lock(mutex_);
    auto entry = std::make_shared<Entry>();
    entry->plan = std::move(plan);
    entry->rank = rank;
    entries_[entry->plan.generation] = std::move(entry);
    if (!thread_.joinable()) thread_ = background_thread("et-builder", [this] { run(); });
  }
  changed_.notify_all();
}

void SeatBuilder::drop(Generation generation) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(generation);
    if (found == entries_.end()) return;
    found->second->cancel.cancel();
    retired_.push_back(std::move(found->second));
    entries_.erase(found);
  }
  changed_.notify_all();
}

std::optional<comm::BuildResult> SeatBuilder::take(Generation generation) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(generation);
  if (found == entries_.end()) return std::nullopt;
  const auto entry = std::move(found->second);
  entries_.erase(found);
  return std::move(entry->result);
}

void SeatBuilder::retire(std::shared_ptr<comm::Communicator> communicator) {
  if (!communicator) return;
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::move(communicator));
  }
  changed_.notify_all();
}

std::shared_ptr<SeatBuilder::Entry> SeatBuilder::next_to_build() const {
  for (const auto& [generation, entry] : entries_) {
    if (!entry->begun) return entry;
  }
  return nullptr;
}

void SeatBuilder::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (const auto entry = next_to_build()) {
      build(entry, lock);
    } else if (!retired_.empty()) {
      auto closing = std::exchange(retired_, {});
      lock.unlock();
      closing.clear();
      lock.lock();
    } else {
      changed_.wait(lock);
    }
  }
}

void SeatBuilder::build(const std::shared_ptr<Entry>& entry, std::unique_lock<std::mutex>& lock) {
  entry->begun = true;
  lock.unlock();
  auto result = build_(entry->plan, entry->rank, entry->cancel);
  const Generation generation = entry->plan.generation;
  const Status status = result ? Status() : Status(result.error());
  lock.lock();
  if (entry->cancel.cancelled()) {
    lock.unlock();
    result = Error{ErrorCode::kAborted, "dropped"};
    lock.lock();
    return;
  }
  if (result) {
    entry->result = std::move(*result);
  } else {
    entries_.erase(generation);
  }
  lock.unlock();
  done_(generation, status);
  lock.lock();
}

}  // namespace elastictrain::session
