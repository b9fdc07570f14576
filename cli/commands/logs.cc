// `elastictrain logs` and `elastictrain attach`: what a run and its workers wrote, from the run's directory.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <utility>

#include "cli/commands/attached_progress.h"
#include "cli/commands/command.h"
#include "cli/commands/exit_code.h"
#include "cli/commands/run_client.h"
#include "cli/config/text.h"
#include "cli/output/kept_output.h"
#include "cli/output/since.h"
#include "cli/output/style.h"
#include "supervisor/control/control_client.h"

namespace elastictrain::cli {
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
    if (control::is_live(directory)) seen = now;
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
