#include "cli/output/run_output.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/output/printable.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "supervisor/core/pure/message_text.h"

namespace elastictrain::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPlainProgressEvery{5};
constexpr const char* kDateAndTime = "%Y-%m-%dT%H:%M:%S";

std::string local_time(const char* format) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  localtime_r(&now.tv_sec, &parts);
  std::array<char, 40> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), format, &parts);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03ld", now.tv_nsec / 1'000'000 % 1000);
  return std::string(text.data(), length) + fraction.data();
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

LogLevel log_level(core::Tell::Level level) {
  switch (level) {
    case core::Tell::Level::kError:
      return LogLevel::kError;
    case core::Tell::Level::kWarning:
      return LogLevel::kWarning;
    default:
      return LogLevel::kInfo;
  }
}

std::size_t digits_of(std::uint32_t max_workers) {
  return std::to_string(max_workers == 0 ? 0 : max_workers - 1).size();
}

}  // namespace

std::string collapse(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t last = line.rfind('\r');
  return std::string(last == std::string_view::npos ? line : line.substr(last + 1));
}

Result<std::unique_ptr<RunOutput>> RunOutput::open(const LogConfig& config, std::uint32_t max_workers) {
  auto label = Label::parse(config.label);
  auto shown = RankSet::parse(config.show_ranks);
  auto tee = RankSet::parse(config.tee);
  if (!label.ok()) return label.error();
  if (!shown.ok()) return shown.error();
  if (!tee.ok()) return tee.error();
  if (!config.directory.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(config.directory, failed);
    if (failed)
      return Error{ErrorCode::kIo, "log.directory " + config.directory + " cannot be created: " + failed.message()};
  }
  return std::unique_ptr<RunOutput>(new RunOutput(config, *label, *shown, *tee, max_workers));
}

RunOutput::RunOutput(const LogConfig& config, Label label, RankSet shown, RankSet tee, std::uint32_t max_workers)
    : config_(config),
      label_(std::move(label)),
      shown_(std::move(shown)),
      tee_(std::move(tee)),
      rank_width_(digits_of(max_workers)),
      shared_(same_place(STDOUT_FILENO, STDERR_FILENO)),
      out_surface_(surface_of(STDOUT_FILENO)),
      error_surface_(surface_of(STDERR_FILENO)),
      error_({.descriptor = STDERR_FILENO, .is_terminal = error_surface_.redraws}),
      next_plain_progress_(Clock::now() + kPlainProgressEvery) {
  if (!shared_) out_ = std::make_unique<LineSink>(LineSink::Options{.descriptor = STDOUT_FILENO});
}

RunOutput::~RunOutput() {
  close();
}

std::string RunOutput::label_text(const OutputLine& line) const {
  const std::string worker = std::to_string(line.worker.value);
  return label_.render({.rank = line.rank < 0 ? to_string(line.worker) : std::to_string(line.rank),
                        .local_rank = std::to_string(line.local_rank),
                        .host = printable(line.host, Lines::kOne),
                        .generation = std::to_string(line.generation),
                        .worker = worker,
                        .stream = line.is_stderr ? "err" : "out",
                        .time = local_time("%H:%M:%S"),
                        .pid = std::to_string(line.pid)},
                       rank_width_);
}

void RunOutput::write_log(const std::string& file, LogFile::Form form, LogLevel level, const std::string& text) {
  if (config_.directory.empty() || log_failed_) return;
  auto found = files_.find(file);
  Status written;
  if (found == files_.end()) {
    auto opened = LogFile::open(config_.directory + "/" + file,
                                {.max_bytes = config_.max_size_bytes, .keep = config_.keep, .form = form});
    if (opened.ok()) {
      found = files_.emplace(file, std::move(*opened)).first;
    } else {
      written = opened.error();
    }
  }
  if (written.ok()) written = found->second.append(text, level);
  if (written.ok()) return;
  log_failed_ = true;
  tell(core::Tell::Level::kError, "log files are no longer written: " + written.error().message);
}

void RunOutput::keep_in(const std::string& run_directory, bool fresh) {
  if (config_.kept_bytes == 0) return;
  auto log = RunLog::open(run_directory, config_.kept_bytes, fresh);
  if (log.ok()) kept_ = std::move(*log);
  kept(log.ok() ? Status() : log.error());
}

// A run without its log still trains, and a disk that was full may have room again.
void RunOutput::kept(const Status& written) {
  const bool first = !written.ok() && !keeping_failed_;
  keeping_failed_ = !written.ok();
  if (first)
    show(printable("elastictrain: warning: output is not kept for elastictrain logs: " + written.error().message));
}

void RunOutput::keep(LogLevel level, std::string_view text) {
  if (!kept_) return;
  const std::string now = local_time(kDateAndTime);
  for (const std::string_view line : lines_of(text)) kept(kept_->add_message(now, level, line));
}

void RunOutput::show_line(const OutputLine& line) {
  if (line.is_unfinished) return show_bar(line);
  bars_.end(line);
  show_whole(line);
}

bool RunOutput::is_drawn(const OutputLine& line) const {
  return line.is_unfinished && error_surface_.redraws && (line.is_stderr || shared_);
}

// On a terminal it is drawn again at the bottom, elsewhere a state is a line now and then.
void RunOutput::show_bar(const OutputLine& line) {
  const auto now = Clock::now();
  const bool is_shown = shown_.contains(line.rank) && tee_.contains(line.rank);
  const bool drawn = is_drawn(line);
  if (is_shown && drawn) bars_.show(line, label_text(line) + line.text, now);
  if (bars_.due(line, now)) show_whole(line);
  if (drawn) draw_status();
}

void RunOutput::show_whole(const OutputLine& line) {
  const std::string text = collapse(line.text);
  if (kept_) kept(kept_->add_line(local_time(kDateAndTime), line, text));
  const std::string stamp = config_.timestamp ? local_time(kDateAndTime) + " " : "";
  write_log("worker-" + std::to_string(line.worker.value) + ".log", LogFile::Form::kPlain, LogLevel::kInfo,
            stamp + text);
  if (is_drawn(line) || !shown_.contains(line.rank) || !tee_.contains(line.rank)) return;
  const Surface& surface = line.is_stderr ? error_surface_ : out_surface_;
  std::string label = label_text(line);
  if (surface.colours && !label.empty()) label = coloured(label, colour_of(line.worker.value));
  sink_for(line.is_stderr).write(stamp + label + text);
}

void RunOutput::tell(core::Tell::Level level, const std::string& text) {
  const char* word = level == core::Tell::Level::kError     ? "error: "
                     : level == core::Tell::Level::kWarning ? "warning: "
                                                            : "";
  const int colour = level == core::Tell::Level::kError ? kRed : kYellow;
  const std::string shown = *word != '\0' && error_surface_.colours ? coloured(word, colour) : word;
  const std::string safe = printable(text);
  show("elastictrain: " + shown + safe);
  keep(log_level(level), safe);
  for (const std::string_view line : lines_of(safe)) {
    write_log("run.log", LogFile::Form::kDated, log_level(level), std::string(line));
  }
}

void RunOutput::say(std::string_view text) {
  const std::string safe = printable(text);
  show(safe);
  constexpr std::string_view kOurs = "elastictrain: ";
  keep(LogLevel::kInfo, safe.starts_with(kOurs) ? std::string_view(safe).substr(kOurs.size()) : safe);
}

void RunOutput::ended(int exit_status) {
  if (kept_) kept(kept_->add_end(local_time(kDateAndTime), exit_status));
}

void RunOutput::show(std::string_view text) {
  for (const std::string_view line : lines_of(text)) error_.message(std::string(line));
}

void RunOutput::show_figures(const RunFigures& figures) {
  if (error_surface_.redraws) {
    progress_ = printable(render_progress(figures, terminal_width(STDERR_FILENO) - 1), Lines::kOne);
    return draw_status();
  }
  const auto now = Clock::now();
  if (now < next_plain_progress_ || figures.step == last_plain_step_) return;
  next_plain_progress_ = now + kPlainProgressEvery;
  last_plain_step_ = figures.step;
  show(printable(render_progress_plain(figures)));
}

void RunOutput::draw_status() {
  std::string status = bars_.render(terminal_width(STDERR_FILENO) - 1, Clock::now()) + progress_;
  error_.set_status(locale_has_unicode() ? status : with_ascii_mark(std::move(status)));
}

void RunOutput::close() {
  error_.set_status("");
  const std::uint64_t lost = out_ == nullptr ? 0 : out_->close();
  out_.reset();
  if (lost > 0) {
    tell(core::Tell::Level::kWarning, core::counted(lost, "line") + " of workers " + (lost == 1 ? "was" : "were") +
                                          " dropped: standard output is read too slowly");
  }
  error_.close();
}

}  // namespace elastictrain::cli
