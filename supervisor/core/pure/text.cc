#include "supervisor/core/pure/text.h"

#include <array>

#include "supervisor/protocol/names.h"

namespace elastictrain::core {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 9> kChangeNames{"start", "grow", "shrink",  "replace", "migrate",
                                                       "drain", "stop", "recover", "update"};
constexpr std::string_view kOldUpdateName = "reshare";

}  // namespace

const char* change_name(protocol::ChangeKind kind) {
  return kChangeNames[static_cast<std::size_t>(kind)].data();
}

std::optional<protocol::ChangeKind> change_named(std::string_view name) {
  if (name == kOldUpdateName) return protocol::ChangeKind::kUpdatePlan;
  return protocol::named<protocol::ChangeKind>(kChangeNames, name);
}

}  // namespace elastictrain::core
