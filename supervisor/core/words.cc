#include "supervisor/core/words.h"

namespace elastictrain::core {

std::string counted(std::size_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

const char* change_name(protocol::ChangeKind kind) {
  switch (kind) {
    case protocol::ChangeKind::kStart:
      return "start";
    case protocol::ChangeKind::kGrow:
      return "grow";
    case protocol::ChangeKind::kShrink:
      return "shrink";
    case protocol::ChangeKind::kReplace:
      return "replace";
    case protocol::ChangeKind::kMigrate:
      return "migrate";
    case protocol::ChangeKind::kDrain:
      return "drain";
    case protocol::ChangeKind::kStop:
      return "stop";
    case protocol::ChangeKind::kRecover:
      return "recover";
    case protocol::ChangeKind::kReshare:
      return "reshare";
  }
  return "change";
}

}  // namespace elastictrain::core
