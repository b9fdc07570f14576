#include "supervisor/recovery_log.h"

#include <charconv>
#include <string_view>
#include <variant>

#include "supervisor/core/pure/message_text.h"
#include "supervisor/protocol/names.h"

namespace elastictrain {

void RecoveryLog::take(const core::Record& record, double up_s) {
  up_s_ = up_s;
  record.visit([this](const auto& about) { on(about); });
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

namespace {

using Level = core::Tell::Level;

constexpr std::uint64_t kReportedAgain = 10;  // times the failures of the warning before

std::optional<Step> number_in(std::string_view text) {
  Step step = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), step);
  return parsed.ec == std::errc() ? std::optional(step) : std::nullopt;
}

}  // namespace

std::optional<CheckpointLog::Message> CheckpointLog::take(const core::Record& record, std::optional<Instant> now) {
  const auto* note = record.as<core::record::Note>();
  return note == nullptr ? std::nullopt : on(*note, now);
}

std::optional<CheckpointLog::Message> CheckpointLog::on(const core::record::Note& note, std::optional<Instant> now) {
  if (note.key == protocol::kCheckpointWritten) return good(note.value, now);
  if (note.key == protocol::kCheckpointFailed) return failed("no checkpoint was written", note.value);
  if (note.key == protocol::kCheckpointFencedOut) return failed("a checkpoint does not count", note.value);
  if (note.key == protocol::kCheckpointSkipped) return Message{Level::kWarning, "checkpoint skipped: " + note.value};
  if (note.key == protocol::kCheckpointUnused || note.key == protocol::kCheckpointNone) {
    return Message{Level::kInfo, note.value};
  }
  if (note.key != protocol::kCheckpointResumed) return std::nullopt;
  good(note.value, std::nullopt);
  return Message{Level::kInfo, "continues from the checkpoint of step " + note.value};
}

// The text begins with the step.
std::optional<CheckpointLog::Message> CheckpointLog::good(const std::string& text, std::optional<Instant> now) {
  const auto step = number_in(text);
  if (!step) return std::nullopt;
  const std::uint64_t before = failures_;
  step_ = step;
  at_ = now;
  failures_ = 0;
  next_reported_ = 1;
  reason_.clear();
  if (before == 0) return std::nullopt;
  return Message{Level::kInfo, "checkpoints are written again: step " + std::to_string(*step) + ", after " +
                                   core::counted(before, "failure")};
}

std::optional<CheckpointLog::Message> CheckpointLog::failed(const std::string& what, const std::string& text) {
  ++failures_;
  reason_ = text;
  if (failures_ < next_reported_) return std::nullopt;
  next_reported_ = failures_ * kReportedAgain;
  const std::string times = failures_ == 1 ? "" : " (" + std::to_string(failures_) + " times in a row)";
  const std::string last =
      step_ ? "the newest good one is that of step " + std::to_string(*step_) : "there is none yet";
  return Message{Level::kWarning, what + times + ": " + text + "; " + last};
}

std::optional<double> CheckpointLog::age_s(Instant now) const {
  if (!at_) return std::nullopt;
  return std::chrono::duration<double>(now - *at_).count();
}

}  // namespace elastictrain
