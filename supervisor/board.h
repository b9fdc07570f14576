// Purpose: the board of a run, small values by key that workers leave for one another, and its copy on the disk for
// a supervisor that takes the run over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/event.h"
#include "supervisor/protocol/worker_messages.h"

// The board of a run: small values by key that workers leave for one another, and those who wait for one. A
// value stays until it is replaced, whoever has left it.
// Thread: any one; pure. Errors: what does not fit is refused with a sentence (limits.h has the limits).

namespace elastictrain {

class Board {
 public:
  struct Answer {
    WorkerId worker;
    protocol::BoardAnswer content;
  };
  struct Entry {
    std::string value;
    WorkerId writer;                            // of this value
    std::map<WorkerId, std::uint64_t> numbers;  // of the last put of each worker
  };

  // Why it is refused; empty: it is on the board, or was before. `is_new`, out: the board has changed.
  std::string put(WorkerId worker, const protocol::BoardPut& put, bool& is_new);
  // Answered by take_answer().
  void get(WorkerId worker, const protocol::BoardGet& get, Instant now);

  // To a question whose value is there, or whose time is over. `may_answer` says whether a worker can be answered now.
  std::optional<Answer> take_answer(Instant now, const std::function<bool(WorkerId)>& may_answer);
  // The time at which the first question must be answered; nothing: none waits.
  std::optional<Instant> next_deadline() const;

  const std::map<std::string, Entry>& entries() const { return entries_; }
  std::size_t bytes() const { return bytes_; }

  static constexpr std::size_t kMaxQuestions = 100'000;

 private:
  struct Question {
    WorkerId worker;
    std::uint64_t number = 0;
    std::string key;
    Instant until;
  };

  std::string objection(const protocol::BoardPut& put) const;
  std::size_t bytes_with(const protocol::BoardPut& put) const;
  protocol::BoardAnswer answer_to(const Question& question) const;

  std::map<std::string, Entry> entries_;
  std::size_t bytes_ = 0;
  std::vector<Question> questions_;
};

// The board of a run on the disk, next to the journal, for a supervisor that takes the run over: one frame for
// each value in the order in which the values came (FromWorker with a BoardPut, codec.h). A frame that was torn is
// dropped with what follows; the worker that sent it sends it again. Written anew when most of it is out of date.
// Ownership: owns the descriptor. Thread: any one. Errors: reported once; a later supervisor would miss values.

class BoardFile {
 public:
  using Report = std::function<void(const std::string&)>;

  // Nothing is opened before the first value.
  BoardFile(std::string path, Report report) : path_(std::move(path)), report_(std::move(report)) {}
  ~BoardFile();
  BoardFile(const BoardFile&) = delete;
  BoardFile& operator=(const BoardFile&) = delete;

  // What an earlier supervisor has left. No file: nothing.
  void load(Board& board);
  // `put` is on the board.
  void append(WorkerId worker, const protocol::BoardPut& put, const Board& board);
  void remove();

 private:
  bool write(const std::string& bytes);
  bool write_anew(const Board& board);
  void close();

  std::string path_;
  Report report_;
  int descriptor_ = -1;
  std::size_t bytes_ = 0;
  bool failing_ = false;
};

}  // namespace elastictrain
