#include "train/session/attachments.h"

#include <algorithm>
#include <string>
#include <utility>

#include "elastictrain/session.hpp"

namespace elastictrain::session {
namespace {

auto with_name(std::string_view name) {
  return [name](const state::EarlyValue& value) { return value.name == name; };
}

}  // namespace

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

}  // namespace elastictrain::session
