#include "cli/output/line_sink.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace elastictrain::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunkBytes = 64U << 10;
// A pipe that polls as writable accepts at least this many bytes without blocking (PIPE_BUF).
constexpr std::size_t kWriteBytes = 4096;
constexpr std::size_t kMessageReserveBytes = 1U << 20;
constexpr std::chrono::milliseconds kLastWait{2'000};
constexpr int kPollMs = 100;
constexpr const char* kClearLine = "\r\x1b[K";
constexpr const char* kClearLineAbove = "\x1b[A\x1b[K";

}  // namespace

LineSink::LineSink(Options options) : options_(options), thread_([this] { run(); }) {}

LineSink::~LineSink() {
  close();
}

std::uint64_t LineSink::close() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    give_up_ = Clock::now() + kLastWait;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  return dropped_;
}

void LineSink::push(std::string line, std::size_t limit_bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (reader_gone_ || stopping_) return;
    if (queued_bytes_ + line.size() > limit_bytes) {
      ++dropped_;
      return;
    }
    line += '\n';
    queued_bytes_ += line.size();
    queue_.push_back(std::move(line));
  }
  changed_.notify_all();
}

void LineSink::write(std::string line) {
  push(std::move(line), options_.max_queued_bytes);
}

void LineSink::message(std::string line) {
  push(std::move(line), options_.max_queued_bytes + kMessageReserveBytes);
}

void LineSink::set_status(std::string status) {
  if (!options_.is_terminal) return;
  {
    const std::lock_guard lock(mutex_);
    if (status == status_) return;
    status_ = std::move(status);
    status_changed_ = true;
  }
  changed_.notify_all();
}

void LineSink::clear_status(std::string& chunk) const {
  for (std::size_t line = 0; line < status_lines_; ++line) chunk += line == 0 ? kClearLine : kClearLineAbove;
}

// Called with the lock held. The status line is erased before other lines and drawn again below them.
std::string LineSink::take_chunk() {
  std::string chunk;
  clear_status(chunk);
  while (!queue_.empty() && chunk.size() < kChunkBytes) {
    queued_bytes_ -= queue_.front().size();
    chunk += queue_.front();
    queue_.pop_front();
  }
  if (queue_.empty() && dropped_ > 0) {
    chunk += "elastictrain: " + std::to_string(std::exchange(dropped_, 0)) +
             " lines were dropped here: this output is read too slowly\n";
  }
  chunk += status_;
  const auto breaks = static_cast<std::size_t>(std::count(status_.begin(), status_.end(), '\n'));
  status_lines_ = status_.empty() ? 0 : breaks + 1;
  status_changed_ = false;
  return chunk;
}

void LineSink::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty() || status_changed_ || dropped_ > 0; });
    if (queue_.empty() && !status_changed_ && dropped_ == 0) return;
    const std::string chunk = take_chunk();
    lock.unlock();
    const bool written = write_all(chunk);
    lock.lock();
    if (!written) return writing_failed(chunk);
  }
}

// Called with the lock held.
void LineSink::writing_failed(const std::string& chunk) {
  const bool too_slow = !reader_gone_;
  if (too_slow) dropped_ += queue_.size() + static_cast<std::uint64_t>(std::count(chunk.begin(), chunk.end(), '\n'));
  if (!too_slow) dropped_ = 0;
  reader_gone_ = true;
  queue_.clear();
  queued_bytes_ = 0;
}

bool LineSink::gave_up() {
  const std::lock_guard lock(mutex_);
  return stopping_ && Clock::now() >= give_up_;
}

bool LineSink::write_all(const std::string& chunk) {
  std::size_t done = 0;
  while (done < chunk.size()) {
    pollfd ready{options_.descriptor, POLLOUT, 0};
    const int polled = poll(&ready, 1, kPollMs);
    if (polled == 0 || (polled < 0 && errno == EINTR)) {
      if (gave_up()) return false;
      continue;
    }
    const std::size_t amount = std::min(kWriteBytes, chunk.size() - done);
    const ssize_t written = ::write(options_.descriptor, chunk.data() + done, amount);
    const std::lock_guard lock(mutex_);
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
      reader_gone_ = true;
      return false;
    }
    if (written <= 0) continue;
    done += static_cast<std::size_t>(written);
    give_up_ = Clock::now() + kLastWait;
  }
  return true;
}

}  // namespace elastictrain::cli
