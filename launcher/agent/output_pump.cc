#include "launcher/agent/output_pump.h"

#include <asio/buffer.hpp>
#include <asio/error_code.hpp>
#include <utility>

namespace elastictrain::launcher {
namespace {

constexpr std::size_t kReadBlockBytes = 64 << 10;
constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::chrono::milliseconds kPartialLineIdle{200};  // without more of a line, whose beginning is then passed on
constexpr std::chrono::seconds kProgressEvery{2};           // between two states of a progress bar

}  // namespace

OutputPump::OutputPump(asio::io_context& io, asio::posix::stream_descriptor pipe, Handlers handlers)
    : handlers_(std::move(handlers)),
      pipe_(std::move(pipe)),
      idle_timer_(io),
      block_(kReadBlockBytes),
      buffer_(kBufferBytes) {
  read();
}

void OutputPump::read() {
  pipe_.async_read_some(asio::buffer(block_),
                        [this, life = std::weak_ptr<char>(life_)](const asio::error_code& error, std::size_t count) {
                          if (life.expired() || ended_) return;
                          take(count);
                          if (!error) return read();
                          finish();
                          handlers_.on_end();
                        });
}

void OutputPump::take(std::size_t count) {
  splitter_.feed({block_.data(), count}, [this](std::string line) { end_line(std::move(line)); });
  read_since_arming_ = true;
  if (splitter_.has_partial() && !timer_armed_) arm_idle_timer();
  if (!buffer_.empty()) handlers_.on_pending();
}

// What the unfinished line was is in it, or was written over.
void OutputPump::end_line(std::string line) {
  progress_.reset();
  last_progress_.clear();
  add_line(std::move(line));
}

void OutputPump::add_line(std::string line) {
  if (handlers_.on_line) handlers_.on_line(line);
  buffer_.push(std::move(line));
}

// One timer that checks whether anything was read since it was set is cheaper than resetting it at every read.
void OutputPump::arm_idle_timer() {
  timer_armed_ = true;
  read_since_arming_ = false;
  idle_timer_.expires_after(kPartialLineIdle);
  idle_timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (error || life.expired()) return;
    timer_armed_ = false;
    if (splitter_.has_partial()) look_at_partial();
  });
}

void OutputPump::look_at_partial() {
  if (splitter_.partial_is_progress()) look_at_progress();
  if (read_since_arming_ || splitter_.partial_is_progress()) return arm_idle_timer();
  splitter_.flush([this](std::string line) { end_line(std::move(line)); });
  handlers_.on_pending();
}

void OutputPump::look_at_progress() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_progress_ || splitter_.partial() == last_progress_) return;
  next_progress_ = now + kProgressEvery;
  last_progress_ = splitter_.partial();
  progress_ = last_progress_;
  handlers_.on_pending();
}

std::optional<std::string> OutputPump::take_progress() {
  return std::exchange(progress_, std::nullopt);
}

void OutputPump::finish() {
  if (std::exchange(ended_, true)) return;
  idle_timer_.cancel();
  asio::error_code ignored;
  pipe_.close(ignored);
  splitter_.flush([this](std::string line) { end_line(std::move(line)); });
}

}  // namespace elastictrain::launcher
