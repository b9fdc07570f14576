#include "train/session/swap_slot.h"

#include <algorithm>
#include <utility>

#include "train/session/background_thread.h"

namespace elastictrain::session {

std::optional<std::uint32_t> rank_in(const protocol::GenerationPlan& plan, WorkerId worker) {
  for (std::uint32_t rank = 0; rank < plan.members.size(); ++rank) {
    if (plan.members[rank].worker == worker) return rank;
  }
  return std::nullopt;
}

SwapSlot::SwapSlot(WorkerId self, Build build, Report report)
    : self_(self), build_(std::move(build)), report_(std::move(report)) {}

SwapSlot::~SwapSlot() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (auto& [generation, entry] : entries_) entry->cancel.cancel();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SwapSlot::prepare(protocol::GenerationPlan plan) {
  {
    const std::lock_guard lock(mutex_);
    const Generation generation = plan.generation;
    if (generation <= newest_taken_ || entries_.contains(generation)) return;
    if (!entries_.empty() && entries_.rbegin()->first > generation) return;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto older = entry++;
      if (!older->second->committed) drop(older);
    }
    auto entry = std::make_shared<Entry>();
    entry->upcoming.rank = rank_in(plan, self_);
    entry->upcoming.plan = std::move(plan);
    entries_.emplace(generation, std::move(entry));
    if (!thread_.joinable()) thread_ = background_thread("et-builder", [this] { run(); });
  }
  changed_.notify_all();
}

void SwapSlot::drop(Entries::iterator entry) {
  entry->second->cancel.cancel();
  entries_.erase(entry);
}

void SwapSlot::commit(Generation generation) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(generation);
  if (entry != entries_.end()) entry->second->committed = true;
}

void SwapSlot::cancel(Generation generation) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(generation);
  if (entry != entries_.end() && !entry->second->committed) drop(entry);
}

SwapSlot::Entries::const_iterator SwapSlot::find_ready(Generation current) const {
  return std::find_if(entries_.begin(), entries_.end(), [&](const auto& item) {
    const Entry& entry = *item.second;
    if (!entry.built || !entry.committed) return false;
    return current == 0 ? entry.upcoming.rank.has_value() : entry.upcoming.plan.previous == current;
  });
}

bool SwapSlot::ready(Generation current) const {
  const std::lock_guard lock(mutex_);
  return find_ready(current) != entries_.end();
}

std::optional<Upcoming> SwapSlot::take(Generation current) {
  const std::lock_guard lock(mutex_);
  const auto found = find_ready(current);
  if (found == entries_.end()) return std::nullopt;
  Upcoming upcoming = std::move(found->second->upcoming);
  newest_taken_ = found->first;
  while (!entries_.empty() && entries_.begin()->first <= newest_taken_) drop(entries_.begin());
  return upcoming;
}

void SwapSlot::retire(std::unique_ptr<comm::Communicator> communicator) {
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::move(communicator));
  }
  changed_.notify_all();
}

std::shared_ptr<SwapSlot::Entry> SwapSlot::next_to_build() const {
  for (const auto& [generation, entry] : entries_) {
    if (!entry->built && !entry->building) return entry;
  }
  return nullptr;
}

void SwapSlot::run() {
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

void SwapSlot::build(const std::shared_ptr<Entry>& entry, std::unique_lock<std::mutex>& lock) {
  entry->building = true;
  const Generation generation = entry->upcoming.plan.generation;
  lock.unlock();
  Result<comm::BuildResult> result = comm::BuildResult{};
  if (entry->upcoming.rank) result = build_(entry->upcoming.plan, *entry->upcoming.rank, entry->cancel);
  lock.lock();
  if (entry->cancel.cancelled()) return;
  if (result) {
    entry->upcoming.build = std::move(*result);
    entry->built = true;
  } else {
    entries_.erase(generation);
  }
  // Without the lock, because the report takes locks of its owner.
  lock.unlock();
  if (result)
    report_(protocol::WorkerPrepared{generation});
  else
    report_(protocol::WorkerPrepareFailed{generation, result.error().message});
  lock.lock();
}

}  // namespace elastictrain::session
