#include "train/comm/outgoing_handshake.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "train/comm/peer_credentials.h"
#include "train/comm/socket_address.h"

namespace elastictrain::comm {
namespace {

constexpr std::chrono::milliseconds kMaxBackOff{50};
// An address that drops packets must not prevent an attempt with the peer's next address.
constexpr std::chrono::milliseconds kConnectTimeout{1000};

Result<SocketAddress> address_of(const RendezvousPlan::Outgoing& target, bool use_unix, std::size_t attempt) {
  if (use_unix) return SocketAddress::abstract_unix(target.endpoint.unix_name);
  const auto& addresses = target.endpoint.addresses;
  if (addresses.empty()) return Error{ErrorCode::kInvalid, "the peer has no address"};
  return SocketAddress::tcp(addresses[attempt % addresses.size()], target.endpoint.port);
}

}  // namespace

OutgoingHandshake::OutgoingHandshake(const RendezvousPlan::Outgoing& target, const Handshake& handshake)
    : target_(target), bytes_(encode(handshake)) {}

short OutgoingHandshake::events() const {
  return state_ == State::kConnecting ? POLLOUT : POLLIN;
}

void OutgoingHandshake::advance(Deadline now) {
  switch (state_) {
    case State::kIdle:
      if (now >= retry_at_) start(now);
      break;
    case State::kConnecting:
      finish_connect(now);
      break;
    case State::kAwaitingAck:
      read_ack(now);
      break;
    case State::kDone:
      break;
  }
}

void OutgoingHandshake::start(Deadline now) {
  auto address = address_of(target_, uses_unix(), attempts_++);
  if (!address) return retry(now, address.error().message);
  socket_ = Socket(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return retry(now, std::strerror(errno));
  if (::connect(socket_.fd(), address->get(), address->size()) == 0) return send_handshake(now);
  if (errno != EINPROGRESS) return retry(now, std::strerror(errno));
  state_ = State::kConnecting;
  retry_at_ = now + kConnectTimeout;
}

void OutgoingHandshake::finish_connect(Deadline now) {
  pollfd ready{socket_.fd(), POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 0) {
    if (now >= retry_at_) retry(now, "connecting takes too long");
    return;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return retry(now, std::strerror(error));
  send_handshake(now);
}

void OutgoingHandshake::send_handshake(Deadline now) {
  if (uses_unix() && !peer_has_own_uid(socket_.fd())) return retry(now, "its Unix socket belongs to another user");
  if (!uses_unix()) tune_tcp(socket_.fd());
  // A new connection has buffer space for these few bytes.
  if (::send(socket_.fd(), bytes_.data(), bytes_.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes_.size())) {
    return retry(now, std::strerror(errno));
  }
  state_ = State::kAwaitingAck;
  ack_bytes_ = 0;
  retry_at_ = Deadline::max();
  if (!refused_)
    last_error_ = "connected, but it has not answered the handshake (is it preparing the same generation?)";
}

void OutgoingHandshake::read_ack(Deadline now) {
  const ssize_t n = ::recv(socket_.fd(), ack_.data() + ack_bytes_, ack_.size() - ack_bytes_, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  refused_ = refused_ || n <= 0;
  if (n <= 0) return retry(now, "it refused the handshake (wrong token or another generation)");
  ack_bytes_ += static_cast<std::size_t>(n);
  if (ack_bytes_ < ack_.size()) return;
  if (ack_ != handshake_ack()) return retry(now, "it uses another protocol or version");
  state_ = State::kDone;
}

void OutgoingHandshake::retry(Deadline now, const std::string& why) {
  last_error_ = why;
  socket_.reset();
  state_ = State::kIdle;
  retry_at_ = now + back_off_;
  back_off_ = std::min(back_off_ * 2, kMaxBackOff);
}

PeerSocket OutgoingHandshake::take() {
  return PeerSocket{std::move(socket_), target_.purpose, target_.to_rank, false};
}

std::string OutgoingHandshake::last_error() const {
  std::string where = "rank " + std::to_string(target_.to_rank) + " (" + to_string(target_.purpose) + ", ";
  if (uses_unix()) {
    where += "Unix socket of this host";
  } else if (!target_.endpoint.addresses.empty()) {
    where += target_.endpoint.addresses.front() + " port " + std::to_string(target_.endpoint.port);
  }
  return where + "): " + last_error_;
}

}  // namespace elastictrain::comm
