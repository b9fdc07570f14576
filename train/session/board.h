// Purpose: the worker's side of the run's board: small values by key that workers leave for one another, kept by the
// supervisor. What is put is sent without waiting and repeated until it is answered; of a key whose value is on its way
// the newest one follows. Without a launcher: a dictionary of this process.
// Thread: any. Errors: SessionError for what has no place on the board. A value that the supervisor has refused is
// reported by the next call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::session {

class Board {
 public:
  using Clock = std::chrono::steady_clock;
  using Send = std::function<void(const protocol::WorkerToAgent&)>;

  // `send`: to the supervisor, which may be away; none: there is none.
  explicit Board(Send send = {}) : send_(std::move(send)) {}

  void put(std::string_view key, std::string_view value);
  // Waits for the key. nullopt: it has no value by then, or the supervisor does not answer: then it is waited for at
  // least kAnswerLimit.
  std::optional<std::string> get(std::string_view key, std::chrono::milliseconds wait);

  // Control thread.
  void hear(const protocol::BoardAnswer& answer);
  void tend(Clock::time_point now);  // repeats what is not answered
  // What has not been sent is sent; the supervisor cannot answer any more.
  void close();

  static constexpr std::chrono::milliseconds kAnswerLimit{5'000};

 private:
  struct Put {
    std::string value;
    std::uint64_t number = 0;
    std::uint64_t sent = 0;  // the number that is on its way; a later value follows when it is answered
    Clock::time_point sent_at;
    Clock::duration patience{};
  };
  struct Question {
    bool answered = false;
    std::optional<std::string> value;
  };

  void check(std::string_view key, std::string_view value) const;
  void raise_refusal();
  std::size_t waiting_bytes() const;
  void send(const std::string& key, Put& put, Clock::duration patience);
  // Once. False: no answer.
  bool ask(std::unique_lock<std::mutex>& lock, const std::string& key, std::chrono::milliseconds wait,
           std::optional<std::string>& value);

  Send send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Put, std::less<>> puts_;  // not answered; without a supervisor: all
  std::map<std::uint64_t, Question> questions_;
  std::uint64_t number_ = 0;
  std::string refusal_;
  bool closed_ = false;
};

}  // namespace elastictrain::session
