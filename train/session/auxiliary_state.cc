#include "train/session/auxiliary_state.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "elastictrain/session.hpp"
#include "train/state/state_buffers.h"

namespace elastictrain::session {
namespace {

auto with_name(std::string_view name) {
  return [name](const state::EarlyValue& value) { return value.name == name; };
}

}  // namespace

void EarlyValues::share(std::string_view name, std::span<const std::byte> bytes, bool in_step) {
  if (!has_room(name, bytes.size())) {
    throw SessionError("share_early(\"" + std::string(name) + "\"): all early values together may have " +
                       std::to_string(kMaxBytes) + " bytes; share large state with share_state()");
  }
  set(in_step ? pending_ : values_, name, bytes);
}

const std::vector<std::byte>* EarlyValues::find(std::string_view name) const {
  const auto found = std::find_if(values_.begin(), values_.end(), with_name(name));
  return found == values_.end() ? nullptr : &found->bytes;
}

void EarlyValues::resume(const std::vector<state::EarlyValue>& saved) {
  for (const auto& value : saved) set(values_, value.name, value.bytes);
}

void EarlyValues::commit() {
  for (const auto& value : pending_) set(values_, value.name, value.bytes);
  pending_.clear();
}

void EarlyValues::set(Values& values, std::string_view name, std::span<const std::byte> bytes) {
  const auto found = std::find_if(values.begin(), values.end(), with_name(name));
  if (found == values.end()) {
    values.push_back({std::string(name), {bytes.begin(), bytes.end()}});
  } else {
    found->bytes.assign(bytes.begin(), bytes.end());
  }
}

// With both the present and the coming values: after the commit they fit in any case.
std::size_t EarlyValues::bytes_besides(std::string_view name) const {
  std::size_t bytes = 0;
  for (const auto* values : {&values_, &pending_}) {
    for (const auto& value : *values) {
      if (value.name != name) bytes += value.name.size() + value.bytes.size();
    }
  }
  return bytes;
}

void Attachments::attach(std::string_view name, std::span<const std::byte> bytes) {
  std::size_t all = name.size() + bytes.size();
  for (const auto& value : pending_) all += value.name == name ? 0 : value.name.size() + value.bytes.size();
  if (all > kMaxBytes) {
    throw SessionError("attach(\"" + std::string(name) + "\"): all attachments of a step together may have " +
                       std::to_string(kMaxBytes) + " bytes; share large state with share_state()");
  }
  is_used_ = true;
  std::erase_if(pending_, with_name(name));
  pending_.push_back({std::string(name), {bytes.begin(), bytes.end()}});
}

void Attachments::commit(Step step) {
  values_ = std::exchange(pending_, {});
  step_ = step;
}

const Attachments::Values& Attachments::of(Step step) const {
  static const Values kNone;
  return step == step_ ? values_ : kNone;
}

const std::vector<std::byte>* Attachments::find(std::string_view name) const {
  const auto found = std::find_if(resumed_.begin(), resumed_.end(), with_name(name));
  return found == resumed_.end() ? nullptr : &found->bytes;
}

std::span<std::byte> ForwardState::add(std::span<std::byte> memory) {
  return entries_.emplace_back(Entry{memory, {memory.begin(), memory.end()}}).copy;
}

void ForwardState::commit() {
  for (auto& entry : entries_) std::ranges::copy(entry.memory, entry.copy.begin());
}

void ForwardState::adopt() {
  for (const auto& entry : entries_) std::ranges::copy(entry.copy, entry.memory.begin());
}

namespace {

constexpr std::byte kHasState{1};

}  // namespace

std::span<std::byte> FirstState::add(std::span<std::byte> memory, std::uint64_t every_steps) {
  return entries_.emplace_back(Entry{memory, every_steps, {memory.begin(), memory.end()}, {}}).copy;
}

std::vector<std::span<std::byte>> FirstState::take(Step step, Place place) {
  std::vector<std::span<std::byte>> marked;
  for (auto& entry : entries_) {
    entry.travels = step % entry.every_steps == 0;
    if (!entry.travels) continue;
    entry.is_own = place == Place::kFirst;
    entry.marked.resize(1 + entry.memory.size());
    entry.marked.front() = place == Place::kWithoutState ? std::byte{0} : kHasState;
    // Without the state the copy is still arriving, on another thread.
    if (place != Place::kWithoutState) {
      std::ranges::copy(entry.is_own ? entry.memory : std::span(entry.copy), entry.marked.begin() + 1);
    }
    marked.emplace_back(entry.marked);
  }
  return marked;
}

void FirstState::begin() {
  for (auto& entry : entries_) std::ranges::copy(entry.memory, entry.copy.begin());
}

void FirstState::commit(bool is_first) {
  for (auto& entry : entries_) {
    if (!std::exchange(entry.travels, false) || entry.marked.front() != kHasState) continue;
    std::copy(entry.marked.begin() + 1, entry.marked.end(), entry.copy.begin());
    if (!is_first || !entry.is_own) std::ranges::copy(entry.copy, entry.memory.begin());
  }
}

void FirstState::adopt() {
  for (const auto& entry : entries_) std::ranges::copy(entry.copy, entry.memory.begin());
}

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
