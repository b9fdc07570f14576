#include "cli/output/summary.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "supervisor/core/pure/message_text.h"

namespace elastictrain::cli {
namespace {

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) result += "  ";
  }
  return result;
}

}  // namespace

void Summary::add_figures(const RunFigures& figures) {
  const double seconds = figures.uptime_s - last_.uptime_s;
  const bool steady = figures.view.phase == core::RunPhase::kRunning &&
                      figures.view.world_size == last_.view.world_size && figures.step > last_.step && seconds > 0;
  if (steady) {
    Speed& speed = speeds_[figures.view.world_size];
    speed.seconds += seconds;
    speed.samples += seconds * figures.samples_per_s;
  }
  last_ = figures;
}

void Summary::on(const core::record::Commit& commit) {
  Change change;
  change.generation = commit.generation;
  change.reason = commit.reason;
  change.size = commit.world_size;
  change.size_before = std::exchange(size_, change.size);
  if (change.size > 0 && change.generation > 1) changes_.push_back(change);
}

void Summary::on(const core::record::GenerationComplete& generation) {
  if (changes_.empty() || changes_.back().generation != generation.generation) return;
  changes_.back().kind = core::change_name(generation.kind);
}

void Summary::on(const core::record::Idle& idle) {
  const auto is_meant = [&](const Change& change) { return change.generation == idle.generation; };
  const auto found = std::find_if(changes_.begin(), changes_.end(), is_meant);
  if (found != changes_.end()) found->idle_s = idle.idle_ms / 1e3;
}

void Summary::on(const core::record::Finished& finished) {
  last_step_ = std::max(last_step_, finished.last_step);
}

void Summary::on(const core::record::RunClosed& closed) {
  last_step_ = std::max(last_step_, closed.step.value_or(0));
  last_loss_ = closed.loss.value_or(0);
}

std::string audit_text(const core::record::Audit& audit) {
  const std::string unaccounted =
      audit.unaccounted > 0 ? std::to_string(audit.unaccounted) + " not accounted for, " : std::string();
  return core::counted(audit.samples, "sample") + " in " + core::counted(audit.steps, "step") + ": " +
         std::to_string(audit.missing) + " missing, " + unaccounted + std::to_string(audit.repeated) + " repeated, " +
         core::counted(audit.unequal_hashes, "unequal parameter hash", "unequal parameter hashes");
}

void Summary::on(const core::record::Audit& audit) {
  audit_failed_ = audit.missing + audit.repeated + audit.unequal_hashes > 0;
  audit_ = audit_text(audit);
}

void Summary::add_record(const core::Record& record) {
  record.visit([this](const auto& about) { on(about); });
}

std::string Summary::total_idle() const {
  std::optional<double> total;
  for (const Change& change : changes_) {
    if (change.idle_s) total = total.value_or(0) + *change.idle_s;
  }
  return total ? format_duration(*total) : "-";
}

std::string Summary::render_speeds() const {
  Table table({{"workers", Align::kRight},
               {"samples/s", Align::kRight},
               {"per worker", Align::kRight},
               {"time", Align::kRight}});
  for (const auto& [size, speed] : speeds_) {
    const double rate = speed.seconds > 0 ? speed.samples / speed.seconds : 0;
    table.add_row({std::to_string(size), format_count(rate),
                   size > 0 ? format_count(rate / static_cast<double>(size)) : "-", format_duration(speed.seconds)});
  }
  return table.empty() ? "" : indented(table.render());
}

std::string Summary::render_changes() const {
  Table table({{"generation", Align::kRight}, {"change"}, {"workers"}, {"idle", Align::kRight}, {"why"}});
  for (const Change& change : changes_) {
    table.add_row({std::to_string(change.generation), change.kind,
                   std::to_string(change.size_before) + " -> " + std::to_string(change.size),
                   change.idle_s ? format_duration(*change.idle_s) : "-", change.reason});
  }
  return table.empty() ? "" : indented(table.render());
}

std::string Summary::render_failures() const {
  std::string text;
  for (const core::FailureView& failure : last_.view.failures) {
    text += (text.empty() ? "  failures: " : ", ") + failure.name + " " + std::to_string(failure.total);
  }
  if (last_.recoveries == 0) return text.empty() ? "" : text + "\n";
  text += (text.empty() ? "  recoveries: " : "; recoveries: ") + std::to_string(last_.recoveries);
  if (last_.last_recovery_idle_s) text += ", the last idle " + format_duration(*last_.last_recovery_idle_s);
  return text + "\n";
}

std::string Summary::render(int exit_status) const {
  std::string text = "summary of " + last_.view.run_name + "\n";
  if (audit_failed_) text += "  AUDIT FAILED: " + audit_ + "\n";
  text += "  ended: " + (end_reason_.empty() ? "without a reason" : end_reason_) + " (status " +
          std::to_string(exit_status) + ") after " + format_duration(last_.uptime_s) + "\n";
  if (const Step steps = std::max(last_.step, last_step_); steps > 0) {
    const double loss = last_loss_ != 0 ? last_loss_ : last_.loss;
    text += "  trained: " + core::counted(steps, "step");
    if (is_reported(loss)) text += ", loss " + format_loss(loss);
    if (!changes_.empty()) text += ", idle for changes " + total_idle();
    text += "\n";
  }
  text += render_failures();
  if (!no_first_.empty()) text += "  rank 0: no worker is left that was started as it (" + no_first_ + ")\n";
  for (const auto& [key, value] : notes_) text += "  " + key + ": " + value + "\n";
  if (!audit_failed_ && !audit_.empty()) text += "  audit: " + audit_ + "\n";
  return text + render_speeds() + render_changes();
}

}  // namespace elastictrain::cli
