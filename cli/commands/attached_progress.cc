#include "cli/commands/attached_progress.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/run_client.h"
#include "cli/output/printable.h"
#include "cli/output/progress.h"
#include "cli/output/style.h"
#include "cli/top/view.h"
#include "supervisor/core/pure/transitions.h"

namespace elastictrain::cli {
namespace {

constexpr std::chrono::seconds kAskEvery{1};
constexpr Millis kAnswerWithin{1'000};
constexpr const char* kEraseLine = "\r\x1b[K";

core::RunPhase phase_named(const std::string& name) {
  using core::RunPhase;
  for (const RunPhase phase : {RunPhase::kStarting, RunPhase::kChanging, RunPhase::kStopping, RunPhase::kEnded}) {
    if (name == core::name_of(phase)) return phase;
  }
  return RunPhase::kRunning;
}

// Fields that are missing keep their defaults.
RunFigures figures_of_status(const nlohmann::json& json) {
  const top::View status = top::view_of(json);
  RunFigures figures;
  figures.view.phase = phase_named(status.phase);
  figures.view.world_size = static_cast<std::uint32_t>(status.world_size);
  figures.view.target_size = static_cast<std::uint32_t>(status.target_size);
  figures.view.last_change = status.last_change;
  figures.epoch = static_cast<std::uint64_t>(status.epoch);
  figures.view.epochs = static_cast<std::uint64_t>(status.epochs);
  figures.epoch_fraction = status.epoch_fraction;
  figures.time_left_s = status.time_left_s;
  figures.step = static_cast<Step>(status.step);
  figures.loss = status.loss;
  figures.samples_per_s = status.samples_per_s;
  figures.recoveries = static_cast<std::uint64_t>(status.recoveries);
  return figures;
}

}  // namespace

AttachedProgress::AttachedProgress(std::string run_directory)
    : directory_(std::move(run_directory)), is_terminal_(surface_of(STDERR_FILENO).redraws) {}

void AttachedProgress::hide() {
  if (std::exchange(drawn_, false)) std::fputs(kEraseLine, stderr);
}

void AttachedProgress::show() {
  if (!is_terminal_) return;
  refresh();
  if (!known_) return hide();
  const std::string line = render_progress(figures_, terminal_width(STDERR_FILENO) - 1);
  std::fputs((kEraseLine + printable(line, Lines::kOne)).c_str(), stderr);
  drawn_ = true;
}

void AttachedProgress::refresh() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kAskEvery;
  const auto answer = ask_run(directory_, {{"command", "status"}}, kAnswerWithin);
  known_ = answer.ok();
  if (known_) figures_ = figures_of_status(answer->value("status", nlohmann::json::object()));
}

}  // namespace elastictrain::cli
