#include "supervisor/board.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/check.h"
#include "supervisor/protocol/codec.h"
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
  ET_CHECK(bytes_ <= limits::kMaxBoardBytes, "a board that is full takes no more");
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
  ET_CHECK(bytes_ >= old, "a board counts the bytes of its values");
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

namespace {

constexpr std::size_t kSlackBytes = 16U << 20;  // of values that have been replaced

std::string frame_of(WorkerId worker, const protocol::BoardPut& put) {
  return protocol::encode_frame(protocol::AgentUp(protocol::FromWorker{worker, put}));
}

}  // namespace

BoardFile::~BoardFile() {
  close();
}

void BoardFile::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void BoardFile::load(Board& board) {
  std::ifstream stream(path_, std::ios::binary);
  if (!stream) return;
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  protocol::FrameReader reader(limits::kMaxFrameBytes);
  if (!reader.feed(content)) return;
  while (const auto body = reader.next()) {
    const auto message = protocol::decode_body<protocol::AgentUp>(*body);
    const auto* from = message ? std::get_if<protocol::FromWorker>(&*message) : nullptr;
    const auto* put = from == nullptr ? nullptr : std::get_if<protocol::BoardPut>(&from->message);
    if (put == nullptr) break;
    bool is_new = false;
    (void)board.put(from->worker, *put, is_new);
  }
  if (!board.entries().empty()) (void)write_anew(board);
}

void BoardFile::append(WorkerId worker, const protocol::BoardPut& put, const Board& board) {
  const std::string frame = frame_of(worker, put);
  const bool is_old = bytes_ + frame.size() > 2 * board.bytes() + kSlackBytes;
  const bool anew = descriptor_ < 0 || failing_ || is_old;
  const bool written = anew ? write_anew(board) : write(frame);
  if (written) {
    failing_ = false;
    return;
  }
  const std::string why = std::strerror(errno);
  close();
  if (std::exchange(failing_, true)) return;
  report_("the board of the run in " + path_ + " cannot be written: " + why +
          "; a supervisor that takes this run over would miss values");
}

bool BoardFile::write_anew(const Board& board) {
  close();
  const std::string fresh = path_ + ".new";
  descriptor_ = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor_ < 0) return false;
  bytes_ = 0;
  for (const auto& [key, entry] : board.entries()) {
    ET_CHECK(entry.numbers.contains(entry.writer), "the writer of a value has numbered it");
    if (!write(frame_of(entry.writer, {entry.numbers.at(entry.writer), key, entry.value}))) return false;
  }
  return std::rename(fresh.c_str(), path_.c_str()) == 0;
}

bool BoardFile::write(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0) errno = ENOSPC;
      return false;
    }
    done += static_cast<std::size_t>(count);
  }
  bytes_ += bytes.size();
  return true;
}

void BoardFile::remove() {
  close();
  ::unlink(path_.c_str());
}

}  // namespace elastictrain
