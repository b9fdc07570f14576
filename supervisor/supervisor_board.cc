// The board of the workers: it lives as long as the run, also through a supervisor that is lost.
#include <algorithm>
#include <asio/error_code.hpp>
#include <chrono>
#include <filesystem>
#include <utility>

#include "supervisor/protocol/codec.h"
#include "supervisor/supervisor_impl.h"

namespace elastictrain {
namespace {

// Answers for an agent wait while this much is on its way to it: values for many workers must not fill its queue.
constexpr std::size_t kMostOnTheWayBytes = 16U << 20;
constexpr std::chrono::milliseconds kLookAgain{20};

}  // namespace

void Supervisor::Impl::open_board() {
  const auto path = std::filesystem::path(journal_->path()).parent_path() / "board";
  board_file_ = std::make_unique<BoardFile>(
      path.string(), [this](const std::string& text) { tell(core::Tell::Level::kWarning, text); });
  if (options_.start == RunStart::kTakeOver) return board_file_->load(board_);
  board_file_->remove();
}

bool Supervisor::Impl::take_for_board(WorkerId worker, const protocol::WorkerUp& message) {
  const auto* get = std::get_if<protocol::BoardGet>(&message);
  const auto* put = std::get_if<protocol::BoardPut>(&message);
  if (get == nullptr && put == nullptr) return false;
  if (get != nullptr) board_.get(worker, *get, clock_now());
  if (put != nullptr) put_on_board(worker, *put);
  answer_from_board();
  return true;
}

void Supervisor::Impl::put_on_board(WorkerId worker, const protocol::BoardPut& put) {
  bool is_new = false;
  protocol::BoardAnswer answered{.number = put.number, .problem = board_.put(worker, put, is_new)};
  if (is_new) board_file_->append(worker, put, board_);
  answer(worker, std::move(answered));
}

void Supervisor::Impl::answer_from_board() {
  for (;;) {
    // One at a time: each counts for what is on the way.
    auto due = board_.take_answer(clock_now(), [this](WorkerId worker) { return may_answer(worker); });
    if (!due) break;
    answer(due->worker, std::move(due->content));
  }
  await_board();
}

bool Supervisor::Impl::may_answer(WorkerId worker) const {
  const WorkerEntry* entry = workers_.find(worker);
  const auto* connection = entry == nullptr ? nullptr : agents_.connection_of(entry->agent);
  return connection == nullptr || connection->queued_bytes() < kMostOnTheWayBytes;
}

void Supervisor::Impl::answer(WorkerId worker, protocol::BoardAnswer content) {
  send_to_worker(worker, protocol::ToWorkers{{worker}, std::move(content)});
}

void Supervisor::Impl::await_board() {
  const auto deadline = board_.next_deadline();
  if (!deadline) return;
  board_timer_.expires_at(std::max(*deadline, clock_now() + kLookAgain));
  board_timer_.async_wait([this, life = std::weak_ptr(life_)](asio::error_code error) {
    if (!error && !life.expired() && !ended_) answer_from_board();
  });
}

}  // namespace elastictrain
