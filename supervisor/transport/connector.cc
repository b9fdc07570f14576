#include <algorithm>
#include <asio/error_code.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <utility>

#include "supervisor/transport/frame_connection.h"
#include "supervisor/transport/handshake.h"
#include "supervisor/transport/tls_connection.h"
#include "supervisor/transport/tls_stream.h"

namespace elastictrain::transport {
namespace {

using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Done = std::function<void(Result<std::shared_ptr<FrameConnection>>)>;

// One connect(): tries address after address, each with an equal part of the remaining time, so that one that drops
// packets does not keep the next from being tried.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  Connector(asio::io_context& io, std::vector<std::string> addresses, std::uint16_t port, ConnectionLimits limits,
            Done done)
      : io_(io),
        addresses_(std::move(addresses)),
        port_(port),
        limits_(limits),
        socket_(io),
        timer_(io),
        done_(std::move(done)) {}

  void start(const Key& key, std::chrono::milliseconds timeout) {
    deadline_ = Clock::now() + timeout;
    auto context = make_tls_context(TlsRole::kClient, key);
    if (!context.ok()) return finish(context.error());
    context_ = std::move(context).value();
    try_next();
  }

 private:
  std::chrono::milliseconds slice() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
    const auto remaining = static_cast<std::int64_t>(addresses_.size() - next_ + 1);
    return std::max(left / remaining, std::chrono::milliseconds(1));
  }

  void try_next() {
    if (next_ == addresses_.size()) return finish(Error{ErrorCode::kUnavailable, summary()});
    if (Clock::now() >= deadline_) return finish(Error{ErrorCode::kTimeout, summary() + "; the time is up"});
    asio::error_code error;
    const auto address = asio::ip::make_address(addresses_[next_++], error);
    if (error) return failed(ErrorCode::kInvalid, "not a numeric address");
    attempt(tcp::endpoint(address, port_));
  }

  void attempt(const tcp::endpoint& endpoint) {
    socket_ = tcp::socket(io_);
    timed_out_ = false;
    attempt_deadline_ = Clock::now() + slice();
    timer_.expires_at(attempt_deadline_);
    timer_.async_wait([self = shared_from_this()](asio::error_code error) {
      if (error) return;
      self->timed_out_ = true;
      asio::error_code ignored;
      self->socket_.close(ignored);
    });
    socket_.async_connect(endpoint, [self = shared_from_this()](asio::error_code error) { self->connected(error); });
  }

  void connected(asio::error_code error) {
    timer_.cancel();
    if (timed_out_) return failed(ErrorCode::kTimeout, "no answer");
    if (error) return failed(ErrorCode::kUnavailable, error.message());
    tune_socket(socket_);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(attempt_deadline_ - Clock::now());
    auto handshake = std::make_shared<Handshake>(
        std::move(socket_), context_.get(), TlsRole::kClient,
        [self = shared_from_this()](Result<std::unique_ptr<TlsStream>> stream) { self->shaken(std::move(stream)); });
    handshake->start(std::max(left, std::chrono::milliseconds(1)));
  }

  void shaken(Result<std::unique_ptr<TlsStream>> stream) {
    if (!stream.ok()) return failed(stream.error().code, stream.error().message);
    finish(std::shared_ptr<FrameConnection>(std::make_shared<TlsConnection>(std::move(stream).value(), limits_)));
  }

  void failed(ErrorCode code, const std::string& why) {
    if (code == ErrorCode::kRefused) refused_ = true;
    if (!failures_.empty()) failures_ += "; ";
    failures_ += addresses_[next_ - 1] + ": " + why;
    asio::post(io_, [self = shared_from_this()] { self->try_next(); });
  }

  std::string summary() const {
    return "cannot reach port " + std::to_string(port_) + (failures_.empty() ? ": no address given" : ": " + failures_);
  }

  void finish(Result<std::shared_ptr<FrameConnection>> result) {
    if (!result.ok() && refused_) result = Error{ErrorCode::kRefused, result.error().message};
    asio::post(io_, [done = std::move(done_), result = std::move(result)]() mutable { done(std::move(result)); });
  }

  asio::io_context& io_;
  std::vector<std::string> addresses_;
  std::uint16_t port_;
  ConnectionLimits limits_;
  TlsContext context_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  Clock::time_point deadline_;
  Clock::time_point attempt_deadline_;
  std::size_t next_ = 0;
  bool timed_out_ = false;
  bool refused_ = false;
  std::string failures_;
  Done done_;
};

}  // namespace

void connect(asio::io_context& io, std::vector<std::string> addresses, std::uint16_t port, const Key& key,
             std::chrono::milliseconds timeout, ConnectionLimits connection_limits,
             std::function<void(Result<std::shared_ptr<FrameConnection>>)> done) {
  auto connector = std::make_shared<Connector>(io, std::move(addresses), port, connection_limits, std::move(done));
  connector->start(key, timeout);
}

}  // namespace elastictrain::transport
