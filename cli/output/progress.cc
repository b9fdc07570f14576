#include "cli/output/progress.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/config/text.h"
#include "cli/output/figures.h"
#include "cli/output/printable.h"
#include "cli/output/table.h"
#include "supervisor/core/pure/invariants.h"
#include "supervisor/core/pure/message_text.h"

namespace elastictrain::cli {
namespace {

constexpr std::chrono::seconds kLineEvery{10};  // where the output is no terminal
constexpr std::chrono::seconds kShownFor{60};   // since the bar's last state
constexpr std::size_t kMostShown = 4;           // at the bottom of a terminal

}  // namespace

bool ProgressBars::due(const OutputLine& line, Time now) {
  const auto [bar, is_new] = bars_.try_emplace(key_of(line));
  if (!is_new && now < bar->second.next_line) return false;
  bar->second.next_line = now + kLineEvery;
  return true;
}

void ProgressBars::show(const OutputLine& line, std::string text, Time now) {
  Bar& bar = bars_[key_of(line)];
  bar.text = std::move(text);
  bar.moved = now;
}

void ProgressBars::end(const OutputLine& line) {
  bars_.erase(key_of(line));
}

std::string ProgressBars::render(std::size_t columns, Time now) const {
  std::string lines;
  std::size_t shown = 0;
  for (const auto& [key, bar] : bars_) {
    if (bar.text.empty() || now - bar.moved > kShownFor || shown == kMostShown) continue;
    lines += fit(printable(bar.text, Lines::kOne), columns) + "\n";
    ++shown;
  }
  return lines;
}

namespace {

constexpr const char* kSeparator = " | ";
constexpr int kChangeWeight = 5;
constexpr std::size_t kUsefulColumns = 20;  // of the last change: a truncated text is better than none

// The part with the highest `weight` is removed first when the line is too long.
struct Part {
  std::string text;
  int weight = 0;
};

std::string workers_text(const core::RunView& view) {
  std::string text = core::counted(view.world_size, "worker");
  if (view.target_size != view.world_size) text += " (target " + std::to_string(view.target_size) + ")";
  return text;
}

bool trains(const RunFigures& figures) {
  return figures.step > 0;
}

std::vector<Part> make_parts(const RunFigures& figures) {
  std::vector<Part> parts;
  if (figures.view.phase != core::RunPhase::kRunning) parts.push_back({core::name_of(figures.view.phase), 0});
  if (trains(figures)) {
    const double percent = figures.epoch_fraction * 100;
    const std::string of = figures.view.epochs > 0 ? " of " + std::to_string(figures.view.epochs) : "";
    parts.push_back({"epoch " + std::to_string(figures.epoch + 1) + of + " " + format_number(percent, 0) + "%", 3});
    parts.push_back({"step " + std::to_string(figures.step), 1});
    if (is_reported(figures.loss)) parts.push_back({"loss " + format_loss(figures.loss), 2});
    parts.push_back({format_count(figures.samples_per_s) + " samples/s", 4});
    if (figures.time_left_s) parts.push_back({format_duration(*figures.time_left_s) + " left", 4});
  }
  parts.push_back({workers_text(figures.view), 0});
  if (figures.recoveries > 0) {
    parts.push_back({std::to_string(figures.recoveries) + (figures.recoveries == 1 ? " recovery" : " recoveries"), 4});
  }
  if (!figures.view.last_change.empty()) parts.push_back({figures.view.last_change, kChangeWeight});
  return parts;
}

std::string join_parts(const std::vector<Part>& parts) {
  std::vector<std::string> texts;
  for (const Part& part : parts) texts.push_back(part.text);
  return join(texts, kSeparator);
}

}  // namespace

std::string render_progress(const RunFigures& figures, std::size_t width) {
  std::vector<Part> parts = make_parts(figures);
  for (std::size_t used = display_width(join_parts(parts)); used > width; used = display_width(join_parts(parts))) {
    const auto min =
        std::max_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.weight < b.weight; });
    const std::size_t too_much = used - width;
    const bool cut_is_enough = min->weight == kChangeWeight && display_width(min->text) >= too_much + kUsefulColumns;
    if (min->weight == 0 || cut_is_enough) break;
    parts.erase(min);
  }
  return fit(join_parts(parts), width);
}

std::string render_progress_plain(const RunFigures& figures) {
  return "progress: " + join_parts(make_parts(figures));
}

}  // namespace elastictrain::cli
