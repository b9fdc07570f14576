#include "supervisor/board.h"

#include <algorithm>
#include <chrono>

#include "supervisor/protocol/limits.h"

namespace elastictrain {
namespace {

constexpr std::size_t kWriterBytes = 64;  // what the board keeps of each worker that has written a key

}  // namespace

std::string Board::put(WorkerId worker, const protocol::BoardPut& put, bool& is_new) {
  is_new = false;
  const auto known = entries_.find(put.key);
  if (known != entries_.end()) {
    const auto before = known->second.numbers.find(worker);
    if (before != known->second.numbers.end() && before->second >= put.number) return {};
  }
  if (std::string why = objection(put); !why.empty()) return why;
  bytes_ = bytes_with(put);
  Entry& entry = entries_[put.key];
  if (!entry.numbers.contains(worker)) bytes_ += kWriterBytes;
  entry.value = put.value;
  entry.writer = worker;
  entry.numbers[worker] = put.number;
  is_new = true;
  return {};
}

std::string Board::objection(const protocol::BoardPut& put) const {
  if (put.key.empty() || put.key.size() > limits::kMaxBoardKeyBytes) {
    return "a key of the board has 1 to " + std::to_string(limits::kMaxBoardKeyBytes) + " bytes";
  }
  if (put.value.size() > limits::kMaxBoardValueBytes) {
    return "a value of the board has at most " + std::to_string(limits::kMaxBoardValueBytes) + " bytes; \"" + put.key +
           "\" has " + std::to_string(put.value.size());
  }
  if (bytes_with(put) + kWriterBytes > limits::kMaxBoardBytes) {
    return "the board is full: all values together have at most " + std::to_string(limits::kMaxBoardBytes) +
           " bytes, and \"" + put.key + "\" with " + std::to_string(put.value.size()) + " more does not fit";
  }
  return {};
}

std::size_t Board::bytes_with(const protocol::BoardPut& put) const {
  const auto known = entries_.find(put.key);
  const std::size_t old = known == entries_.end() ? 0 : known->second.value.size();
  const std::size_t of_key = known == entries_.end() ? put.key.size() : 0;
  return bytes_ - old + put.value.size() + of_key;
}

// A worker repeats a question under a new number: the one before it is not awaited any more.
void Board::get(WorkerId worker, const protocol::BoardGet& get, Instant now) {
  std::erase_if(questions_,
                [&](const Question& question) { return question.worker == worker && question.key == get.key; });
  if (questions_.size() >= kMaxQuestions) return;
  const auto wait = std::chrono::milliseconds(std::min(get.wait_ms, limits::kMaxBoardWaitMs));
  questions_.push_back({worker, get.number, get.key, now + wait});
}

std::optional<Board::Answer> Board::take_answer(Instant now, const std::function<bool(WorkerId)>& may_answer) {
  const auto question = std::find_if(questions_.begin(), questions_.end(), [&](const Question& asked) {
    const bool is_due = now >= asked.until || entries_.contains(asked.key);
    return is_due && may_answer(asked.worker);
  });
  if (question == questions_.end()) return std::nullopt;
  Answer answer{question->worker, answer_to(*question)};
  questions_.erase(question);
  return answer;
}

protocol::BoardAnswer Board::answer_to(const Question& question) const {
  const auto found = entries_.find(question.key);
  if (found == entries_.end()) return {.number = question.number};
  return {.number = question.number, .found = true, .value = found->second.value};
}

std::optional<Instant> Board::next_deadline() const {
  const auto first = std::min_element(questions_.begin(), questions_.end(),
                                      [](const Question& a, const Question& b) { return a.until < b.until; });
  return first == questions_.end() ? std::nullopt : std::optional(first->until);
}

}  // namespace elastictrain
