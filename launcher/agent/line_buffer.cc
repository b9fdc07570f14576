#include "launcher/agent/line_buffer.h"

#include <utility>

namespace elastictrain::launcher {

void LineBuffer::push(std::string line) {
  bytes_ += cost(line);
  lines_.push_back(std::move(line));
  while (bytes_ > max_bytes_ && lines_.size() > 1) {
    pop();
    ++dropped_;
  }
}

void LineBuffer::pop() {
  bytes_ -= cost(lines_.front());
  lines_.pop_front();
}

LineBuffer::Batch LineBuffer::take(std::size_t max_bytes) {
  Batch batch;
  batch.dropped = std::exchange(dropped_, 0);
  std::size_t taken = 0;
  while (!lines_.empty() && (batch.lines.empty() || taken + cost(lines_.front()) <= max_bytes)) {
    std::string line = std::move(lines_.front());
    taken += cost(line);
    bytes_ -= cost(line);
    lines_.pop_front();
    batch.lines.push_back(std::move(line));
  }
  return batch;
}

}  // namespace elastictrain::launcher
