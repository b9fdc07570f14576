#include "cli/commands/clients/logs.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "cli/output/event_text.h"
#include "cli/output/printable.h"
#include "cli/output/progress.h"
#include "cli/output/run_log.h"
#include "cli/output/terminal.h"
#include "cli/top/model.h"
#include "supervisor/control/control_client.h"
#include "supervisor/core/pure/invariants.h"

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

// `elastictrain logs` and `elastictrain attach`: what a run and its workers wrote, from the run's directory.
namespace {

constexpr std::size_t kLinesBeforeAttaching = 10;
// A run whose supervisor is gone has no last line.
constexpr std::chrono::seconds kLastLine{5};

struct LogsFlags {
  std::string name;
  bool follow = false;
  KeptChoice choice;
};

// Past the filter of std::cout: the lines of workers are their own, and messages were made harmless when they were
// kept.
void print(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

bool flush() {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

// The exit status of the run; none: its supervisor is gone, or nobody reads our output any more.
std::optional<int> follow(const std::string& directory, KeptOutput& output, bool shows_progress) {
  using Clock = std::chrono::steady_clock;
  AttachedProgress progress(directory);
  const auto print_over = [&progress](const std::string& line) {
    progress.hide();
    print(line);
  };
  FileWatch watch(kept_log_path(directory));
  Clock::time_point seen = Clock::now();
  while (flush()) {
    const auto status = output.print_new(print_over);
    if (status) return status;
    if (shows_progress && flush()) progress.show();
    const auto now = Clock::now();
    if (control::is_live(directory)) {
      seen = now;
    } else if (output.ended()) {  // before we read on, or by an earlier supervisor
      (void)output.print_new(print_over);
      if (output.ended()) return output.ended();
    }
    if (now - seen > kLastLine) break;
    watch.wait();
  }
  return std::nullopt;
}

Error nothing_kept(const std::string& directory) {
  return {ErrorCode::kUnavailable, kept_log_path(directory) + " cannot be read: the run keeps no output " +
                                       "(log.kept_bytes = 0), or an older version started it"};
}

int print_logs(LogsFlags flags) {
  flags.choice.colours = surface_of(STDOUT_FILENO).colours;
  const auto directory = find_run(flags.name);
  if (!directory.ok()) return complain("logs", directory.error());
  KeptOutput output(*directory, flags.choice);
  if (!output.is_open()) return complain("logs", nothing_kept(*directory));
  output.print_all(print);
  if (flags.follow && control::is_live(*directory)) (void)follow(*directory, output, false);
  return flush() ? kExitSuccess : kExitFailure;
}

int attach(const std::string& name) {
  const auto directory = find_live_run(name);
  if (!directory.ok()) return complain("attach", directory.error());
  const std::string found = directory->substr(directory->rfind('/') + 1);
  KeptOutput output(*directory, {.last = kLinesBeforeAttaching, .colours = surface_of(STDOUT_FILENO).colours});
  if (!output.is_open()) return complain("attach", nothing_kept(*directory));
  std::cerr << "elastictrain: attached to run " << found << "; Ctrl-C leaves it running, elastictrain stop " << found
            << " ends it\n";
  output.print_all(print);
  const auto status = follow(*directory, output, true);
  if (status) return *status;
  if (!flush()) return kExitFailure;
  return complain("attach", lost_supervisor(found));
}

Status set_since(KeptChoice& choice, const std::string& text) {
  auto since = parse_since(text);
  if (!since.ok()) return since.error();
  choice.since = std::move(*since);
  return {};
}

Status set_ranks(KeptChoice& choice, const std::string& text) {
  auto ranks = RankSet::parse(text);
  if (!ranks.ok()) return wrong_usage("--rank: " + ranks.error().message);
  choice.ranks = std::move(*ranks);
  return {};
}

Status set_last(KeptChoice& choice, const std::string& text) {
  const auto lines = parse_whole_number(text);
  if (!lines) return wrong_usage("--tail: '" + text + "' is not a number of lines");
  choice.last = *lines;
  return {};
}

}  // namespace

Command make_logs(Invocation& invocation) {
  const auto flags = std::make_shared<LogsFlags>();
  const auto ranks = [flags](const std::string& text) { return set_ranks(flags->choice, text); };
  const auto since = [flags](const std::string& text) { return set_since(flags->choice, text); };
  const auto last = [flags](const std::string& text) { return set_last(flags->choice, text); };
  return {"logs",
          "what a run and its workers wrote",
          kGroupClient,
          {word("run", "[NAME]", "name of the run, when several are live; it may have ended", flags->name),
           flag("-f,--follow", "continue with new lines until the run ends", flags->follow),
           value("--rank", "RANKS", "only lines of these ranks: 0,4-7", ranks),
           value("--since", "TIME", "only lines of the last 10m, or since 2026-01-31T14:03", since),
           value("--tail", "N", "only the last N lines", last),
           flag("-t,--timestamps", "begin each line with its time", flags->choice.times)},
          always(invocation, [flags] { return print_logs(*flags); })};
}

Command make_attach(Invocation& invocation) {
  const auto name = std::make_shared<std::string>();
  return {"attach",
          "show a run's output as it is written, and end with the run's status; Ctrl-C leaves the run alone",
          kGroupClient,
          {word("run", "[NAME]", "name of the run, when several are live", *name)},
          always(invocation, [name] { return attach(*name); })};
}

}  // namespace elastictrain::cli
