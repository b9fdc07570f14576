#include "cli/output/run_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <utility>

#include "cli/output/event_text.h"
#include "cli/output/terminal.h"

namespace elastictrain::cli {
namespace {

constexpr std::string_view kEnd = "end";

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  panic("log level without a name");
}

}  // namespace

std::string kept_log_path(const std::string& run_directory) {
  return run_directory + "/output.log";
}

std::string older_kept_log_path(const std::string& run_directory) {
  return run_directory + "/output.1.log";
}

Result<RunLog> RunLog::open(const std::string& run_directory, std::uint64_t max_bytes, bool fresh) {
  if (fresh) {
    std::error_code ignored;
    std::filesystem::remove(kept_log_path(run_directory), ignored);
    std::filesystem::remove(older_kept_log_path(run_directory), ignored);
  }
  auto file = LogFile::open(kept_log_path(run_directory), {.max_bytes = max_bytes / 2, .keep = 1, .owner_only = true});
  if (!file.ok()) return file.error();
  return RunLog(std::move(*file));
}

Status RunLog::add_line(std::string_view time, const OutputLine& line, std::string_view text) {
  const std::string rank = line.rank < 0 ? "-" : std::to_string(line.rank);
  std::string whole(time);
  whole.append(" ").append(to_string(line.worker)).append(" ").append(rank).append(" ");
  whole.append(line.host.empty() ? "-" : line.host).append(line.is_stderr ? " err " : " out ").append(text);
  return file_.append(whole);
}

Status RunLog::add_own(std::string_view time, std::string_view kind, std::string_view text) {
  std::string whole(time);
  whole.append(" run - - ").append(kind).append(" ").append(text);
  return file_.append(whole);
}

Status RunLog::add_message(std::string_view time, LogLevel level, std::string_view text) {
  return add_own(time, level_name(level), text);
}

Status RunLog::add_end(std::string_view time, int exit_status) {
  return add_own(time, kEnd, std::to_string(exit_status));
}

std::optional<int> KeptLine::exit_status() const {
  int status = 0;
  const char* end = text.data() + text.size();
  const bool is_number = is_of_run() && kind == kEnd && std::from_chars(text.data(), end, status).ptr == end;
  return is_number ? std::optional(status) : std::nullopt;
}

std::optional<KeptLine> read_kept_line(std::string_view line) {
  std::array<std::string_view, 5> parts;
  for (std::string_view& part : parts) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0) return std::nullopt;
    part = line.substr(0, space);
    line.remove_prefix(space + 1);
  }
  return KeptLine{parts[0], parts[1], parts[2], parts[3], parts[4], line};
}

namespace {

std::uint64_t number_in(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::int64_t rank_of(const KeptLine& line) {
  return line.rank == "-" ? -1 : static_cast<std::int64_t>(number_in(line.rank));
}

std::string label_of(const KeptChoice& choice, const KeptLine& line) {
  if (line.is_of_run()) {
    const bool plain = line.kind == "info";
    return "elastictrain: " + (plain ? std::string() : std::string(line.kind) + ": ");
  }
  const std::string_view rank = line.rank == "-" ? line.worker : line.rank;
  const std::string label = "[" + std::string(line.host) + ":" + std::string(rank) + "]";
  return (choice.colours ? coloured(label, colour_of(number_in(line.worker.substr(1)))) : label) + " ";
}

}  // namespace

bool is_chosen(const KeptChoice& choice, const KeptLine& line) {
  if (line.exit_status()) return false;
  if (choice.ranks && (line.is_of_run() || !choice.ranks->contains(rank_of(line)))) return false;
  return is_since(line.time, choice.since);
}

std::string render_kept(const KeptChoice& choice, const KeptLine& line) {
  const std::string time = choice.times ? std::string(line.time) + " " : "";
  return time + label_of(choice, line) + std::string(line.text);
}

KeptOutput::KeptOutput(const std::string& run_directory, KeptChoice choice)
    : choice_(std::move(choice)), older_(older_kept_log_path(run_directory)), newer_(kept_log_path(run_directory)) {}

std::optional<KeptLine> KeptOutput::take(std::string_view text) {
  auto line = read_kept_line(text);
  ended_ = line ? line->exit_status() : std::nullopt;
  return line && is_chosen(choice_, *line) ? line : std::nullopt;
}

void KeptOutput::print_all(const std::function<void(const std::string& line)>& print) {
  std::deque<std::string> held;  // the last ones, if only those are wanted
  const auto use = [&](std::string_view text) {
    const auto line = take(text);
    if (!line) return;
    if (!choice_.last) return print(render_kept(choice_, *line));
    held.push_back(render_kept(choice_, *line));
    if (held.size() > *choice_.last) held.pop_front();
  };
  if (older_.is_open()) older_.read_lines(use);
  newer_.read_lines(use);
  std::for_each(held.begin(), held.end(), print);
}

std::optional<int> KeptOutput::print_new(const std::function<void(const std::string& line)>& print) {
  bool is_new = false;
  newer_.read_lines([&](std::string_view text) {
    is_new = true;
    if (const auto line = take(text)) print(render_kept(choice_, *line));
  });
  return is_new ? ended_ : std::nullopt;
}

}  // namespace elastictrain::cli
