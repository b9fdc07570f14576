// Purpose: writes whole lines to one file descriptor on a thread of its own, so that a slow reader of our output never
// blocks the supervisor. Lines that do not fit into the bounded queue are dropped, counted, and reported as soon as
// there is room. On a terminal a status line stays below the lines.
//
// Ownership: owns the thread, not the descriptor. Thread: write(), message() and set_status() from any. Errors: after
// the reader is gone (closed pipe), all lines are dropped silently and the run continues.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

namespace elastictrain::cli {

class LineSink {
 public:
  struct Options {
    int descriptor = 1;
    std::size_t max_queued_bytes = 8U << 20;
    bool is_terminal = false;
  };

  explicit LineSink(Options options);
  ~LineSink();
  LineSink(const LineSink&) = delete;
  LineSink& operator=(const LineSink&) = delete;

  // A line without its newline. Dropped when the queue is full.
  void write(std::string line);

  // The same for a line that must not be dropped because of many others: it has a reserve of its own.
  void message(std::string line);

  // Sets the line at the bottom of a terminal, or several; empty: none. Ignored elsewhere. None may be wider than the
  // terminal.
  void set_status(std::string status);

  // Writes the queued lines, as long as the reader accepts something every two seconds, and ends the thread. Returns
  // the number of lines that were dropped without a report, if the reader is still there.
  std::uint64_t close();

 private:
  void run();
  std::string take_chunk();
  void clear_status(std::string& chunk) const;
  bool write_all(const std::string& chunk);
  bool gave_up();
  void writing_failed(const std::string& chunk);
  void push(std::string line, std::size_t limit_bytes);

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  std::uint64_t dropped_ = 0;  // not reported yet
  std::string status_;
  bool status_changed_ = false;
  std::size_t status_lines_ = 0;  // on the terminal now
  bool stopping_ = false;
  bool reader_gone_ = false;
  std::chrono::steady_clock::time_point give_up_{};
  std::thread thread_;
};

}  // namespace elastictrain::cli
