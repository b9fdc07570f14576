#include "train/session/early_values.h"

#include <algorithm>
#include <string>

#include "elastictrain/session.hpp"

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

}  // namespace elastictrain::session
