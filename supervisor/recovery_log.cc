#include "supervisor/recovery_log.h"

#include <variant>

namespace elastictrain {

void RecoveryLog::take(const core::Record& record) {
  std::visit([this](const auto& about) { on(about); }, record);
}

void RecoveryLog::on(const core::record::Commit& commit) {
  committed_ = commit.generation;
  reason_ = commit.reason;
}

void RecoveryLog::on(const core::record::GenerationComplete& generation) {
  if (generation.kind != protocol::ChangeKind::kRecover) return;
  ++count_;
  last_ = Last{generation.generation, generation.generation == committed_ ? reason_ : "", std::nullopt};
}

void RecoveryLog::on(const core::record::Idle& idle) {
  if (last_ && idle.generation == last_->generation) last_->idle_s = idle.idle_ms / 1e3;
}

}  // namespace elastictrain
