#include "train/session/board.h"

#include <algorithm>
#include <utility>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/limits.h"

namespace elastictrain::session {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPatience{2'000};
constexpr milliseconds kLongestPatience{16'000};
constexpr milliseconds kRound{2'000};  // of a question: a supervisor that is new is asked again after it
constexpr milliseconds kLate{1'000};

std::string bytes_text(std::size_t bytes) {
  return std::to_string(bytes) + " bytes";
}

}  // namespace

void Board::check(std::string_view key, std::string_view value) const {
  if (key.empty() || key.size() > limits::kMaxBoardKeyBytes) {
    throw SessionError("board: a key has 1 to " + bytes_text(limits::kMaxBoardKeyBytes));
  }
  if (value.size() > limits::kMaxBoardValueBytes) {
    throw SessionError("board_put(\"" + std::string(key) + "\"): a value has at most " +
                       bytes_text(limits::kMaxBoardValueBytes) + ", this one has " + bytes_text(value.size()) +
                       "; put it in parts, or less of it");
  }
}

void Board::raise_refusal() {
  if (closed_) throw SessionError("this session has ended: nothing can be called after finish()");
  if (refusal_.empty()) return;
  throw SessionError("board_put(): " + std::exchange(refusal_, {}));
}

std::size_t Board::waiting_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [key, put] : puts_) bytes += key.size() + put.value.size();
  return bytes;
}

void Board::put(std::string_view key, std::string_view value) {
  check(key, value);
  const std::lock_guard lock(mutex_);
  raise_refusal();
  const auto known = puts_.find(key);
  const std::size_t old = known == puts_.end() ? 0 : known->first.size() + known->second.value.size();
  if (waiting_bytes() - old + key.size() + value.size() > limits::kMaxBoardBytes) {
    throw SessionError("board_put(\"" + std::string(key) + "\"): " +
                       (send_ ? "the supervisor does not answer, and what waits for it" : "all values together") +
                       " may have " + bytes_text(limits::kMaxBoardBytes));
  }
  auto& put = known == puts_.end() ? puts_[std::string(key)] : known->second;
  put.value = value;
  put.number = ++number_;
  if (send_ && put.sent == 0) send(std::string(key), put, kFirstPatience);
}

void Board::send(const std::string& key, Put& put, Clock::duration patience) {
  put.patience = patience;
  put.sent_at = Clock::now();
  put.sent = put.number;
  send_(protocol::BoardPut{put.number, key, put.value});
}

std::optional<std::string> Board::get(std::string_view key, milliseconds wait) {
  check(key, {});
  std::unique_lock lock(mutex_);
  raise_refusal();
  const std::string name(key);
  const auto begin = Clock::now();
  const auto until = begin + std::max(wait, milliseconds(0));
  for (bool heard = false;;) {
    if (const auto own = puts_.find(name); own != puts_.end()) return own->second.value;
    if (!send_ || closed_) return std::nullopt;  // nobody else can put one
    const auto left = std::max(std::chrono::ceil<milliseconds>(until - Clock::now()), milliseconds(0));
    std::optional<std::string> value;
    heard = ask(lock, name, std::min(left, kRound), value) || heard;
    if (value) return value;
    const auto now = Clock::now();
    if (now >= until && (heard || now >= begin + kAnswerLimit)) return std::nullopt;
  }
}

bool Board::ask(std::unique_lock<std::mutex>& lock, const std::string& key, milliseconds wait,
                std::optional<std::string>& value) {
  const auto number = ++number_;
  questions_[number];
  send_(protocol::BoardGet{number, key, static_cast<std::uint32_t>(wait.count())});
  changed_.wait_for(lock, wait + kLate, [&] { return closed_ || questions_.at(number).answered; });
  const bool answered = questions_.at(number).answered;
  value = std::move(questions_.at(number).value);
  questions_.erase(number);
  return answered;
}

void Board::hear(const protocol::BoardAnswer& answer) {
  const std::lock_guard lock(mutex_);
  if (const auto question = questions_.find(answer.number); question != questions_.end()) {
    question->second.answered = true;
    if (answer.found) question->second.value = answer.value;
    return changed_.notify_all();
  }
  const auto put =
      std::find_if(puts_.begin(), puts_.end(), [&](const auto& item) { return item.second.sent == answer.number; });
  if (put == puts_.end()) return;
  if (!answer.problem.empty()) refusal_ = answer.problem;
  if (put->second.number != answer.number) return send(put->first, put->second, kFirstPatience);
  puts_.erase(put);
}

void Board::tend(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, put] : puts_) {
    if (now - put.sent_at >= put.patience)
      send(key, put, std::min<Clock::duration>(2 * put.patience, kLongestPatience));
  }
}

void Board::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto& [key, put] : puts_) {
    if (send_ && put.sent != put.number) send(key, put, kLongestPatience);
  }
  changed_.notify_all();
}

}  // namespace elastictrain::session
