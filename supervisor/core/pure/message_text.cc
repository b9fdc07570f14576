#include "supervisor/core/pure/message_text.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/names.h"

namespace elastictrain::core {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 9> kChangeNames{"start", "grow", "shrink",  "replace", "migrate",
                                                       "drain", "stop", "recover", "update"};
constexpr std::string_view kOldUpdateName = "reshare";

}  // namespace

const char* change_name(protocol::ChangeKind kind) {
  return kChangeNames[static_cast<std::size_t>(kind)].data();
}

std::optional<protocol::ChangeKind> change_named(std::string_view name) {
  if (name == kOldUpdateName) return protocol::ChangeKind::kUpdatePlan;
  return protocol::named<protocol::ChangeKind>(kChangeNames, name);
}

namespace {

constexpr std::int32_t kSignalInt = 2;

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

std::string last_line(const std::vector<std::string>& lines) {
  const auto found = std::find_if_not(lines.rbegin(), lines.rend(), is_blank);
  return found == lines.rend() ? "" : found->substr(found->find_first_not_of(" \t\r"));
}

// Python's: behind the last traceback, above what is written while the interpreter ends. Empty: there is none.
std::string raised_exception(const std::vector<std::string>& lines) {
  std::string raised;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_ignored = i > 0 && lines[i - 1].starts_with("Exception ignored in");
    if (!lines[i].starts_with("Traceback (most recent call last)") || is_ignored) continue;
    const auto end = std::find_if(lines.begin() + static_cast<std::ptrdiff_t>(i) + 1, lines.end(),
                                  [](const std::string& line) { return !is_blank(line) && line.front() != ' '; });
    if (end != lines.end()) raised = *end;
  }
  return raised;
}

std::string mebibytes(std::uint64_t bytes) {
  constexpr std::uint64_t kUnit = 1024 * 1024;
  return std::to_string((bytes + kUnit / 2) / kUnit) + " MiB";
}

// With what an exit is explained that the kernel's OOM killer caused.
std::string memory_text(const WorkerExited& event) {
  const bool was_it = event.signal == kSignalKill;
  std::string text =
      was_it ? " by the kernel's OOM killer: " : ", and the kernel's OOM killer ended a process beside it: ";
  text += event.memory_limit_bytes == 0 ? "the memory of its host was used up"
                                        : "its cgroup has a limit of " + mebibytes(event.memory_limit_bytes);
  if (event.peak_bytes != 0) text += ", and the worker held up to " + mebibytes(event.peak_bytes);
  return text;
}

}  // namespace

std::string exit_text(const WorkerExited& event) {
  std::string text = event.signal != 0 ? "was killed by " + protocol::signal_text(event.signal)
                                       : "exited with status " + std::to_string(event.exit_code);
  return event.out_of_memory ? text + memory_text(event) : text;
}

int exit_status_of(const WorkerExited& event) {
  if (event.signal != 0) return 128 + event.signal;
  return event.exit_code >= 1 && event.exit_code <= 125 ? event.exit_code : 1;
}

std::string last_words(const WorkerExited& event) {
  const bool from_outside = event.signal == kSignalKill || event.signal == kSignalTerm || event.signal == kSignalInt;
  if (from_outside || (event.signal == 0 && event.exit_code == 0)) return "";
  const std::string raised = raised_exception(event.last_error_lines);
  const std::string words = raised.empty() ? last_line(event.last_error_lines) : raised;
  return words.empty() ? "" : ": " + words;
}

int status_of(StopCause cause) {
  switch (cause) {
    case StopCause::kUser:
    case StopCause::kCancelled:
      return 0;
    case StopCause::kInterrupt:
      return 130;
    case StopCause::kPreempted:
    case StopCause::kTimeLimit:
    case StopCause::kSuspended:
      return kStatusComeAgain;
  }
  return 0;
}

const char* reason_of(StopCause cause) {
  switch (cause) {
    case StopCause::kUser:
      return "stopped by the user";
    case StopCause::kInterrupt:
      return "interrupted";
    case StopCause::kPreempted:
      return "preempted";
    case StopCause::kTimeLimit:
      return "the time limit is reached";
    case StopCause::kSuspended:
      return "suspended by the cluster";
    case StopCause::kCancelled:
      return "cancelled by the cluster";
  }
  return "stopped";
}

namespace {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string quoted(std::string_view line) {
  return "'" + std::string(line) + "'";
}

}  // namespace

std::string first_difference(std::string_view mine, std::string_view others) {
  for (std::size_t number = 1; !mine.empty() || !others.empty(); ++number) {
    const bool has_mine = !mine.empty();
    const bool has_theirs = !others.empty();
    const std::string_view line = take_line(mine);
    const std::string_view theirs = take_line(others);
    const std::string place = "its item " + std::to_string(number);
    if (!has_mine) return place + " is not " + quoted(theirs) + ", as it is elsewhere";
    if (!has_theirs) return place + " is " + quoted(line) + ", which it is nowhere else";
    if (line != theirs) return place + " is " + quoted(line) + ", elsewhere it is " + quoted(theirs);
  }
  return "the difference is behind the items that a worker names";
}

}  // namespace elastictrain::core
