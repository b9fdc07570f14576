#include "launcher/agent/supervisor_link.h"

#include <algorithm>
#include <utility>

#include "supervisor/protocol/codec.h"

namespace elastictrain::launcher {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetryPeriod{500};
constexpr milliseconds kRetryTimeout{2000};

}  // namespace

SupervisorLink::SupervisorLink(asio::io_context& io, const protocol::AgentBootstrap& bootstrap, Handlers handlers)
    : io_(io), bootstrap_(bootstrap), handlers_(std::move(handlers)), retry_timer_(io), silence_timer_(io) {}

SupervisorLink::~SupervisorLink() {
  if (connection_) connection_->close();
}

void SupervisorLink::start() {
  connect(milliseconds(bootstrap_.connect_timeout_ms));
}

void SupervisorLink::connect(milliseconds timeout) {
  transport::connect(
      io_, bootstrap_.addresses, bootstrap_.port, bootstrap_.key, timeout, {},
      [this, life = std::weak_ptr<char>(life_)](Result<std::shared_ptr<transport::FrameConnection>> connection) {
        if (life.expired()) return;
        if (finished_) {
          if (connection) (*connection)->close();
          return;
        }
        if (connection)
          connected(std::move(*connection));
        else
          attempt_failed(connection.error());
      });
}

void SupervisorLink::connected(std::shared_ptr<transport::FrameConnection> connection) {
  connection_ = std::move(connection);
  local_address_ = connection_->local_address();
  was_up_ = true;
  last_heard_ = std::chrono::steady_clock::now();
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
  const auto away = std::chrono::steady_clock::now() - last_heard_;
  if (!was_up_ || away >= milliseconds(bootstrap_.orphan_grace_ms)) return handlers_.on_gone(error);
  try_again_later();
}

void SupervisorLink::lost(const Error& error) {
  if (finished_ || !connection_) return;
  connection_.reset();
  silence_timer_.cancel();
  handlers_.on_lost(error);
  // The grace counts from the moment the connection went, not from the last word before it.
  last_heard_ = std::chrono::steady_clock::now();
  if (bootstrap_.orphan_grace_ms == 0) return handlers_.on_gone(error);
  try_again_later();
}

void SupervisorLink::try_again_later() {
  const auto give_up_at = last_heard_ + milliseconds(bootstrap_.orphan_grace_ms);
  retry_timer_.expires_at(std::min(std::chrono::steady_clock::now() + kRetryPeriod, give_up_at));
  retry_timer_.async_wait([this, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (error || life.expired() || finished_) return;
    const auto left = last_heard_ + milliseconds(bootstrap_.orphan_grace_ms) - std::chrono::steady_clock::now();
    connect(std::clamp(std::chrono::duration_cast<milliseconds>(left), milliseconds(1), kRetryTimeout));
  });
}

// A supervisor that is cut off without a word is as gone as one whose connection broke; one that is merely stopped for
// a while (^Z) is not, so its silence is borne for the whole grace.
void SupervisorLink::watch_silence() {
  const auto limit = milliseconds(std::max(bootstrap_.orphan_grace_ms, bootstrap_.worker_dead_ms));
  silence_timer_.expires_at(last_heard_ + limit);
  silence_timer_.async_wait([this, limit, life = std::weak_ptr<char>(life_)](const asio::error_code& error) {
    if (error || life.expired() || finished_ || !connection_) return;
    if (std::chrono::steady_clock::now() - last_heard_ < limit) return watch_silence();
    connection_->close();
    connection_.reset();
    handlers_.on_gone(
        {ErrorCode::kPeerLost, "the supervisor has said nothing for " + std::to_string(limit.count()) + " ms"});
  });
}

void SupervisorLink::take(const std::string& body) {
  last_heard_ = std::chrono::steady_clock::now();
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
