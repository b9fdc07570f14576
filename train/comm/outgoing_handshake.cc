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

OutgoingHandshake::OutgoingHandshake(const RendezvousPlan& plan, const RendezvousPlan::Outgoing& target)
    : target_(target), token_(plan.token), handshake_{plan.generation, target.purpose, plan.rank, target.to_rank, {},
                                                      plan.encryption} {
  if (uses_unix()) handshake_.encryption = protocol::Encryption::kNone;
}

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
    case State::kAwaitingChallenge:
      read_challenge(now);
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
  handshake_.nonce = make_nonce();
  hello_ = encode(handshake_);
  if (!send(hello_, now)) return;
  state_ = State::kAwaitingChallenge;
  retry_at_ = Deadline::max();
  if (!refused_)
    last_error_ = "connected, but it has not answered the handshake (is it preparing the same generation?)";
}

// A new connection has buffer space for these few bytes.
bool OutgoingHandshake::send(std::span<const std::byte> bytes, Deadline now) {
  read_bytes_ = 0;
  if (::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size())) return true;
  retry(now, std::strerror(errno));
  return false;
}

bool OutgoingHandshake::read(std::span<std::byte> bytes, Deadline now) {
  const ssize_t n = ::recv(socket_.fd(), bytes.data() + read_bytes_, bytes.size() - read_bytes_, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) {
    refused_ = true;
    retry(now, "it refused the handshake (wrong token or another generation)");
    return false;
  }
  read_bytes_ += static_cast<std::size_t>(n);
  return read_bytes_ == bytes.size();
}

void OutgoingHandshake::read_challenge(Deadline now) {
  if (!read(challenge_, now)) return;
  const auto challenge = decode_challenge(challenge_);
  if (!challenge) return retry(now, "it uses another protocol or version");
  if (!same_mac(challenge->proof, prove(token_, Side::kAcceptor, hello_, challenge->nonce, challenge->encryption))) {
    refused_ = true;
    return retry(now, "it could not prove that it holds the token of this generation");
  }
  // Also to a peer with another level, so that it believes this rank and ends its build, too.
  const auto proof = prove(token_, Side::kConnector, hello_, challenge->nonce, challenge->encryption);
  agreement_ = check_levels({handshake_.from_rank, handshake_.encryption}, {target_.to_rank, challenge->encryption});
  secrets_ = record_secrets(token_, Side::kConnector, hello_, challenge->nonce, handshake_.encryption);
  if (send(proof, now)) state_ = State::kAwaitingAck;
}

void OutgoingHandshake::read_ack(Deadline now) {
  if (!read(ack_, now)) return;
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
  return PeerSocket{Channel(std::move(socket_), secrets_, name_ends(target_.to_rank, handshake_.from_rank)),
                    target_.purpose, target_.to_rank, false};
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
