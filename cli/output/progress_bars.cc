#include "cli/output/progress_bars.h"

#include "cli/output/printable.h"
#include "cli/output/table.h"

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

}  // namespace elastictrain::cli
