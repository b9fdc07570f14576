#include "launcher/agent/supervisor_link.h"

#include <algorithm>
#include <asio/error_code.hpp>
#include <utility>

#include "supervisor/protocol/check.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::launcher {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetryPeriod{500};
constexpr milliseconds kRetryTimeout{2000};

}  // namespace

SupervisorLink::SupervisorLink(asio::io_context& io, const protocol::AgentBootstrap& bootstrap, Handlers handlers)
    : io_(io),
      bootstrap_(bootstrap),
      handlers_(std::move(handlers)),
      retry_timer_(io),
      silence_timer_(io),
      quiet_(std::max(bootstrap.worker_dead_ms, 4 * bootstrap.heartbeat_ms)),
      limit_(std::max({bootstrap.orphan_grace_ms, bootstrap.worker_dead_ms})) {}

SupervisorLink::~SupervisorLink() {
  if (connection_) connection_->close();
}

void SupervisorLink::start() {
  connect(milliseconds(bootstrap_.connect_timeout_ms));
}

void SupervisorLink::connect(milliseconds timeout) {
  if (std::exchange(connecting_, true)) return;
  transport::connect(
      io_, bootstrap_.addresses, bootstrap_.port, bootstrap_.key, timeout, {},
      [this, life = std::weak_ptr<char>(life_)](Result<std::shared_ptr<transport::FrameConnection>> connection) {
        if (life.expired()) return;
        connecting_ = false;
        const bool needed = !finished_ && (!connection_ || silence() >= quiet_);
        if (connection && !needed) return (*connection)->close();
        if (finished_) return;
        if (connection)
          connected(std::move(*connection));
        else
          attempt_failed(connection.error());
      });
}

void SupervisorLink::connected(std::shared_ptr<transport::FrameConnection> connection) {
  ET_CHECK(!finished_, "an agent that has ended connects no more");
  if (connection_) connection_->close();
  connection_ = std::move(connection);
  local_address_ = connection_->local_address();
  was_up_ = true;
  last_seen_ = std::chrono::steady_clock::now();
  const std::weak_ptr<char> life = life_;
  connection_->start(
      [this, life](const std::string& body) {
        if (!life.expired()) take(body);
      },
      [this, life](const Error& error) {
        if (!life.expired()) lost(error);
      });
  watch_silence();
  handlers_.on_up();
}

void SupervisorLink::attempt_failed(const Error& error) {
  if (connection_) return;  // the silence timer tries again
  const auto away = std::chrono::steady_clock::now() - last_seen_;
  if (!was_up_ || away >= milliseconds(bootstrap_.orphan_grace_ms)) return give_up(error);
  try_again_later();
}

// Final: an agent that has told its workers to end does not serve a supervisor any more.
void SupervisorLink::give_up(const Error& error) {
  finish();
  handlers_.on_gone(error);
}

void SupervisorLink::lost(const Error& error) {
  if (finished_ || !connection_) return;
  connection_.reset();
  silence_timer_.cancel();
  handlers_.on_lost(error);
  // The grace counts from the loss of the connection, not from the last message before it.
  last_seen_ = std::chrono::steady_clock::now();
  if (bootstrap_.orphan_grace_ms == 0) return give_up(error);
  try_again_later();
}

void SupervisorLink::try_again_later() {
  const auto give_up_at = last_seen_ + milliseconds(bootstrap_.orphan_grace_ms);
  retry_timer_.expires_at(std::min(std::chrono::steady_clock::now() + kRetryPeriod, give_up_at));
  retry_timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (error || life.expired() || finished_ || connection_) return;
    const auto left = last_seen_ + milliseconds(bootstrap_.orphan_grace_ms) - std::chrono::steady_clock::now();
    connect(std::clamp(std::chrono::duration_cast<milliseconds>(left), milliseconds(1), kRetryTimeout));
  });
}

// A supervisor that is cut off silently counts as lost, like one whose connection broke; one that is merely stopped for
// a while (^Z) does not, so its silence is tolerated for the whole grace.
void SupervisorLink::watch_silence() {
  const auto now = std::chrono::steady_clock::now();
  const auto next_try = silence() < quiet_ ? last_seen_ + quiet_ : now + kRetryPeriod;
  silence_timer_.expires_at(std::min(next_try, std::max(last_seen_ + limit_, now)));
  silence_timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (error || life.expired() || finished_ || !connection_) return;
    look_at_silence();
  });
}

void SupervisorLink::look_at_silence() {
  if (silence() >= limit_) {
    return give_up({ErrorCode::kPeerLost, "the supervisor has sent nothing for " + protocol::duration_text(limit_)});
  }
  if (silence() >= quiet_) connect(kRetryTimeout);
  watch_silence();
}

milliseconds SupervisorLink::silence() const {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - last_seen_);
}

void SupervisorLink::take(const std::string& body) {
  last_seen_ = std::chrono::steady_clock::now();
  auto message = protocol::decode_body<protocol::AgentDown>(body);
  if (message) return handlers_.on_message(std::move(*message));
  connection_->close();
  lost({ErrorCode::kInvalid, "the supervisor sent a " + message.error().message});
}

void SupervisorLink::send(const protocol::AgentUp& message) {
  if (connection_) connection_->send(protocol::encode_frame(message));
}

void SupervisorLink::finish() {
  finished_ = true;
  retry_timer_.cancel();
  silence_timer_.cancel();
  if (connection_) std::exchange(connection_, nullptr)->close_after_flush();
}

}  // namespace elastictrain::launcher
