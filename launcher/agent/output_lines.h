// Purpose: a worker's output as whole lines, and the bounded buffer in which they wait for the supervisor. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// Splits a program's output into whole lines. A carriage return restarts the line, so that of a progress bar
// only the last state remains; a line that is too long is cut.
//
// Thread: pure. Errors: none.

namespace elastictrain::launcher {

class OutputSplitter {
 public:
  using LineHandler = std::function<void(std::string line)>;
  explicit OutputSplitter(std::size_t max_line_bytes = 16 << 10) : max_line_bytes_(max_line_bytes) {}

  void feed(std::string_view bytes, const LineHandler& on_line);
  // The unfinished line, as a line of its own.
  void flush(const LineHandler& on_line);

  bool has_partial() const { return !partial_.empty(); }
  const std::string& partial() const { return partial_; }
  // The unfinished line was restarted, or will be: a progress bar that is written again and again.
  bool partial_is_progress() const { return started_over_ || pending_return_; }

 private:
  void append(std::string_view text, const LineHandler& on_line);
  void end_line(const LineHandler& on_line);

  std::size_t max_line_bytes_;
  std::string partial_;
  bool pending_return_ = false;  // a carriage return whose next byte decides: \r\n ends the line
  bool started_over_ = false;
};

// The bounded buffer between a worker's pipe and the supervisor. When it is full the oldest lines are dropped
// and counted, so that neither a slow network nor a slow reader ever blocks a worker.
//
// Thread: one. Errors: none.

class LineBuffer {
 public:
  explicit LineBuffer(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  struct Batch {
    std::vector<std::string> lines;
    std::uint64_t dropped = 0;  // lines that preceded the first of these
  };

  void push(std::string line);
  bool empty() const { return lines_.empty() && dropped_ == 0; }
  // The oldest lines, about `max_bytes` of them and at least one.
  Batch take(std::size_t max_bytes);

 private:
  // The cost of a line in addition to its text; empty lines must not be free.
  static constexpr std::size_t kLineOverheadBytes = 64;
  static std::size_t cost(const std::string& line) { return line.size() + kLineOverheadBytes; }
  void pop();

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::deque<std::string> lines_;
};

}  // namespace elastictrain::launcher
