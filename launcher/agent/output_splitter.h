// Purpose: splits a program's output into whole lines. A carriage return restarts the line, so that of a progress bar
// only the last state remains; a line that is too long is cut.
//
// Thread: pure. Errors: none.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

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

}  // namespace elastictrain::launcher
