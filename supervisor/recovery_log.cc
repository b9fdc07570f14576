#include "supervisor/recovery_log.h"

#include <variant>

namespace elastictrain {

void RecoveryLog::take(const core::Record& record, double up_s) {
  up_s_ = up_s;
  std::visit([this](const auto& about) { on(about); }, record);
}

void RecoveryLog::on(const core::record::Commit& commit) {
  committed_ = commit.generation;
  reason_ = commit.reason;
}

void RecoveryLog::on(const core::record::GenerationComplete& generation) {
  const std::string reason = generation.generation == committed_ ? reason_ : "";
  last_change_ = Change{generation.generation, reason, up_s_};
  if (generation.kind != protocol::ChangeKind::kRecover) return;
  ++count_;
  last_ = Last{generation.generation, reason, std::nullopt};
}

void RecoveryLog::on(const core::record::Idle& idle) {
  if (last_ && idle.generation == last_->generation) last_->idle_s = idle.idle_ms / 1e3;
}

}  // namespace elastictrain
