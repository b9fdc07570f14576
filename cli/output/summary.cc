#include "cli/output/summary.h"

#include <algorithm>
#include <utility>

#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

nlohmann::json value_of(const Summary::Fields& fields, std::string_view name) {
  for (const auto& [key, text] : fields) {
    if (key == name) return parse_json(text);
  }
  return nullptr;
}

std::string text_of(const Summary::Fields& fields, std::string_view name) {
  const nlohmann::json value = value_of(fields, name);
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() || value.is_discarded() ? "" : json_text(value);
}

std::uint64_t number_of(const Summary::Fields& fields, std::string_view name) {
  const nlohmann::json value = value_of(fields, name);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

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

void Summary::add_commit(const Fields& fields) {
  Change change;
  change.generation = number_of(fields, "generation");
  change.reason = text_of(fields, "reason");
  change.size = number_of(fields, "world_size");
  change.size_before = std::exchange(size_, change.size);
  if (change.size > 0 && change.generation > 1) changes_.push_back(change);
}

void Summary::add_generation(const Fields& fields) {
  if (changes_.empty() || changes_.back().generation != number_of(fields, "generation")) return;
  changes_.back().kind = text_of(fields, "kind");
}

void Summary::add_idle(const Fields& fields) {
  const nlohmann::json idle_ms = value_of(fields, "idle_ms");
  const auto is_meant = [&](const Change& change) { return change.generation == number_of(fields, "generation"); };
  const auto found = std::find_if(changes_.begin(), changes_.end(), is_meant);
  if (found != changes_.end() && idle_ms.is_number()) found->idle_s = idle_ms.get<double>() / 1e3;
}

std::string Summary::total_idle() const {
  std::optional<double> total;
  for (const Change& change : changes_) {
    if (change.idle_s) total = total.value_or(0) + *change.idle_s;
  }
  return total ? format_duration(*total) : "-";
}

void Summary::add_event(std::string_view event, const Fields& fields) {
  if (event == "commit") add_commit(fields);
  if (event == "generation") add_generation(fields);
  if (event == "idle") add_idle(fields);
  if (event == "note") notes_[text_of(fields, "key")] = text_of(fields, "value");
  if (event == "finished") finished_step_ = std::max(finished_step_, number_of(fields, "last_step"));
  if (event == "end") end_reason_ = text_of(fields, "reason");
  if (event == "audit") {
    audit_ = std::to_string(number_of(fields, "samples")) + " samples in " +
             std::to_string(number_of(fields, "steps")) + " steps: " + std::to_string(number_of(fields, "missing")) +
             " missing, " + std::to_string(number_of(fields, "repeated")) + " repeated, " +
             std::to_string(number_of(fields, "unequal_hashes")) + " unequal parameter hashes";
  }
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
  text += "  ended: " + (end_reason_.empty() ? "without a reason" : end_reason_) + " (status " +
          std::to_string(exit_status) + ") after " + format_duration(last_.uptime_s) + "\n";
  if (const Step steps = std::max(last_.step, finished_step_); steps > 0) {
    text += "  trained: " + std::to_string(steps) + " steps";
    if (last_.step > 0) text += ", loss " + format_loss(last_.loss);
    if (!changes_.empty()) text += ", idle for changes " + total_idle();
    text += "\n";
  }
  text += render_failures();
  for (const auto& [key, value] : notes_) text += "  " + key + ": " + value + "\n";
  if (!audit_.empty()) text += "  audit: " + audit_ + "\n";
  return text + render_speeds() + render_changes();
}

}  // namespace elastictrain::cli
