#include "launcher/agent/ras_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/error_code.hpp>
#include <asio/ip/address.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "launcher/agent/ras_report.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::launcher {

Result<ReservedPort> ReservedPort::take(const std::string& address) {
  asio::error_code bad;
  asio::ip::tcp::endpoint place(asio::ip::make_address(address, bad), 0);
  if (bad) return Error{ErrorCode::kInvalid, "'" + address + "' is no numeric address"};
  ReservedPort port;
  port.socket_ = ::socket(place.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto size = static_cast<socklen_t>(place.size());
  const int yes = 1;
  if (port.socket_ < 0 || ::setsockopt(port.socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::setsockopt(port.socket_, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0 ||
      ::bind(port.socket_, place.data(), size) != 0 || ::getsockname(port.socket_, place.data(), &size) != 0) {
    return Error{ErrorCode::kIo, "no free port on " + address + ": " + std::strerror(errno)};
  }
  port.number_ = place.port();
  port.address_ = (place.address().is_v6() ? "[" + address + "]:" : address + ":") + std::to_string(port.number_);
  return port;
}

ReservedPort::ReservedPort(ReservedPort&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      number_(std::exchange(other.number_, 0)),
      address_(std::exchange(other.address_, {})) {}

ReservedPort& ReservedPort::operator=(ReservedPort&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(number_, other.number_);
  std::swap(address_, other.address_);
  return *this;
}

ReservedPort::~ReservedPort() {
  if (socket_ >= 0) ::close(socket_);
}

namespace {

constexpr std::size_t kMaxBytes = 256 << 10;
// So that data sent before the deadline still arrives in time.
constexpr std::chrono::milliseconds kAnswerReserve{20};
// The protocol's minimum for the answers of other processes.
constexpr char kQuestion[] = "CLIENT PROTOCOL 2\nTIMEOUT 1\nVERBOSE STATUS\n";

}  // namespace

std::vector<std::string> explain_ras_answer(const RasAnswer& answer, std::chrono::milliseconds time_limit) {
  if (!answer.connected) return {};
  auto lines = explain_ras_report(answer.text);
  const std::string limit = protocol::duration_text(time_limit);
  if (answer.text.empty()) {
    lines.push_back("NCCL's RAS service did not answer within " + limit);
  } else if (lines.empty()) {
    lines.push_back("the answer at the port of NCCL's RAS service is not from that service");
  } else if (!answer.complete) {
    lines.push_back("the report is incomplete: not all processes answered NCCL within " + limit);
  }
  return lines;
}

void RasClient::start(asio::io_context& io, std::vector<std::uint16_t> ports, std::chrono::milliseconds time_limit,
                      Done done) {
  std::make_shared<RasClient>(io, std::move(ports), std::move(done))->begin(time_limit);
}

void RasClient::begin(std::chrono::milliseconds time_limit) {
  deadline_.expires_after(std::max(time_limit - kAnswerReserve, std::chrono::milliseconds(1)));
  deadline_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error) self->finish();
  });
  patience_ = time_limit / 12;
  try_next();
}

void RasClient::try_next() {
  asio::error_code ignored;
  socket_.close(ignored);
  if (attempts_ == ports_.size()) return finish();
  const std::size_t attempt = ++attempts_;
  if (attempt < ports_.size()) {
    silence_.expires_after(patience_);
    silence_.async_wait([self = shared_from_this(), attempt](const asio::error_code& error) {
      if (!error && self->done_ && self->attempts_ == attempt && self->answer_.text.empty()) self->try_next();
    });
  }
  socket_.async_connect({asio::ip::address_v4::loopback(), ports_[attempt - 1]},
                        [self = shared_from_this(), attempt](const asio::error_code& error) {
                          if (!self->done_ || self->attempts_ != attempt) return;
                          if (error) return self->try_next();
                          self->connected(attempt);
                        });
}

void RasClient::connected(std::size_t attempt) {
  answer_.connected = true;
  asio::async_write(socket_, asio::buffer(kQuestion, sizeof kQuestion - 1),
                    [self = shared_from_this()](const asio::error_code&, std::size_t) {});
  read(attempt);
}

void RasClient::read(std::size_t attempt) {
  socket_.async_read_some(asio::buffer(block_),
                          [self = shared_from_this(), attempt](const asio::error_code& error, std::size_t count) {
                            if (!self->done_ || self->attempts_ != attempt) return;
                            self->answer_.text.append(self->block_.data(), count);
                            if (error && self->answer_.text.empty()) return self->try_next();
                            self->answer_.complete = error == asio::error::eof;
                            if (error || self->answer_.text.size() >= kMaxBytes) return self->finish();
                            self->read(attempt);
                          });
}

void RasClient::finish() {
  deadline_.cancel();
  silence_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
  if (const Done done = std::exchange(done_, nullptr)) done(std::move(answer_));
}

}  // namespace elastictrain::launcher
