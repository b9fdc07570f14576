// Purpose: the bounded buffer between a worker's pipe and the supervisor. When it is full the oldest lines are dropped
// and counted, so that neither a slow network nor a slow reader ever blocks a worker.
//
// Thread: one. Errors: none.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace elastictrain::launcher {

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
