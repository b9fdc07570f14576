#include "supervisor/protocol/host_name.h"

#include <algorithm>

namespace elastictrain::protocol {
namespace {

constexpr std::size_t kMaxHostNameBytes = 253;

}  // namespace

bool is_host_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxHostNameBytes || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_' || c == ':' || c == '%';
  });
}

}  // namespace elastictrain::protocol
