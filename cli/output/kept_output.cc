#include "cli/output/kept_output.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "cli/output/since.h"
#include "cli/output/style.h"

namespace elastictrain::cli {
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

void KeptOutput::print_all(const std::function<void(const std::string& line)>& print) {
  std::deque<std::string> held;  // the last ones, if only those are wanted
  const auto use = [&](std::string_view text) {
    const auto line = read_kept_line(text);
    if (!line || !is_chosen(choice_, *line)) return;
    if (!choice_.last) return print(render_kept(choice_, *line));
    held.push_back(render_kept(choice_, *line));
    if (held.size() > *choice_.last) held.pop_front();
  };
  if (older_.is_open()) older_.read_lines(use);
  newer_.read_lines(use);
  std::for_each(held.begin(), held.end(), print);
}

std::optional<int> KeptOutput::print_new(const std::function<void(const std::string& line)>& print) {
  std::optional<int> status;
  newer_.read_lines([&](std::string_view text) {
    const auto line = read_kept_line(text);
    if (!line) return;
    status = line->exit_status();
    if (is_chosen(choice_, *line)) print(render_kept(choice_, *line));
  });
  return status;
}

}  // namespace elastictrain::cli
