#include "launcher/agent/output_lines.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/check.h"

namespace elastictrain::launcher {

void OutputSplitter::feed(std::string_view bytes, const LineHandler& on_line) {
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    append(bytes.substr(0, end), on_line);
    if (end == bytes.size()) return;
    if (bytes[end] == '\n')
      end_line(on_line);
    else
      pending_return_ = true;
    bytes.remove_prefix(end + 1);
  }
}

void OutputSplitter::append(std::string_view text, const LineHandler& on_line) {
  if (text.empty()) return;
  if (pending_return_) {
    partial_.clear();
    pending_return_ = false;
    started_over_ = true;
  }
  while (partial_.size() + text.size() > max_line_bytes_) {
    const auto room = max_line_bytes_ - partial_.size();
    partial_.append(text.substr(0, room));
    text.remove_prefix(room);
    on_line(std::exchange(partial_, {}));
  }
  partial_.append(text);
}

void OutputSplitter::end_line(const LineHandler& on_line) {
  pending_return_ = false;
  started_over_ = false;
  on_line(std::exchange(partial_, {}));
}

void OutputSplitter::flush(const LineHandler& on_line) {
  if (has_partial()) end_line(on_line);
}

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
  ET_CHECK((bytes_ == 0) == lines_.empty(), "a buffer counts the bytes of the lines that it holds");
  return batch;
}

}  // namespace elastictrain::launcher
