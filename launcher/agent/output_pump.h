// Purpose: drains one pipe of a worker for as long as it is open, whatever becomes of the lines. The state of a
// progress bar, whose line may end in hours, is passed on from time to time.
//
// Ownership: the worker owns it. Thread: the io_context's thread. Errors: none; the end of the pipe is reported once.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/output_lines.h"

namespace elastictrain::launcher {

class OutputPump {
 public:
  struct Handlers {
    std::function<void(const std::string&)> on_line;  // may be empty
    std::function<void()> on_pending;                 // lines, or a state, are waiting to be taken
    std::function<void()> on_end;
  };

  OutputPump(asio::io_context& io, asio::posix::stream_descriptor pipe, Handlers handlers);

  LineBuffer& buffer() { return buffer_; }
  bool has_progress() const { return progress_.has_value(); }
  // The last state of the unfinished line, which is behind all lines of the buffer.
  std::optional<std::string> take_progress();
  bool ended() const { return ended_; }
  // Abandons the pipe (another process may hold its other end open forever) and returns an unfinished line.
  void finish();
  // Adds a line of the agent to the worker's lines.
  void add_line(std::string line);

 private:
  void read();
  void take(std::size_t count);
  void end_line(std::string line);
  void arm_idle_timer();
  void look_at_partial();
  void look_at_progress();

  Handlers handlers_;
  asio::posix::stream_descriptor pipe_;
  asio::steady_timer idle_timer_;
  std::vector<char> block_;
  OutputSplitter splitter_;
  LineBuffer buffer_;
  std::optional<std::string> progress_;
  std::string last_progress_;
  std::chrono::steady_clock::time_point next_progress_{};
  bool ended_ = false;
  bool read_since_arming_ = false;
  bool timer_armed_ = false;
  std::shared_ptr<char> life_ = std::make_shared<char>();
};

}  // namespace elastictrain::launcher
