// Purpose: all output of `run`: workers' lines with their label, our own messages, progress, log files.
//
// Workers' standard output goes to our standard output, their standard error and our own messages to standard error.
// Nothing here blocks on a reader. Thread: one (the Asio loop); the sinks have threads of their own.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/config/label.h"
#include "cli/config/run_config.h"
#include "cli/output/line_sink.h"
#include "cli/output/log_file.h"
#include "cli/output/progress.h"
#include "cli/output/run_log.h"
#include "cli/output/terminal.h"
#include "supervisor/control/run_status.h"
#include "supervisor/core/pure/action.h"
#include "supervisor/output_line.h"

namespace elastictrain::cli {

class RunOutput {
 public:
  static Result<std::unique_ptr<RunOutput>> open(const LogConfig& config, std::uint32_t max_workers);
  ~RunOutput();

  // From now on, keeps what `logs` and `attach` read in this run's directory, which the caller has claimed. `fresh`:
  // removes what an earlier run of that name left there.
  void keep_in(const std::string& run_directory, bool fresh);

  void show_line(const OutputLine& line);
  void tell(core::Tell::Level level, const std::string& text);
  void show_figures(const RunFigures& figures);
  void say(std::string_view text);  // our own message to standard error; may have several lines
  void ended(int exit_status);      // after everything else

  // Erases the progress line and writes the queued lines. A slow reader is told how many lines were dropped.
  void close();

 private:
  RunOutput(const LogConfig& config, Label label, RankSet shown, RankSet tee, std::uint32_t max_workers);
  void show(std::string_view text);  // as it is
  LineSink& sink_for(bool is_stderr) { return is_stderr ? error_ : (shared_ ? error_ : *out_); }
  std::string label_text(const OutputLine& line) const;
  void show_whole(const OutputLine& line);
  bool is_drawn(const OutputLine& line) const;
  void show_bar(const OutputLine& line);
  void draw_status();
  void keep(LogLevel level, std::string_view text);
  void kept(const Status& written);
  void write_log(const std::string& file, LogFile::Form form, LogLevel level, const std::string& text);

  const LogConfig config_;
  const Label label_;
  const RankSet shown_;
  const RankSet tee_;
  const std::size_t rank_width_;
  const bool shared_;  // both streams have the same target, so one thread keeps their order
  const Surface out_surface_;
  const Surface error_surface_;
  LineSink error_;
  std::unique_ptr<LineSink> out_;
  std::map<std::string, LogFile> files_;  // by name within log.directory
  bool log_failed_ = false;
  std::optional<RunLog> kept_;
  bool keeping_failed_ = false;
  ProgressBars bars_;
  std::string progress_;  // the line at the bottom of a terminal
  std::chrono::steady_clock::time_point next_plain_progress_;
  Step last_plain_step_ = 0;
};

// The text after the last carriage return: the last state of a progress bar.
std::string collapse(std::string_view line);

}  // namespace elastictrain::cli
