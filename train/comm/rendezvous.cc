#include "train/comm/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>

#include "supervisor/protocol/check.h"
#include "train/comm/peer_process.h"
#include "train/comm/socket.h"

namespace elastictrain::comm {
namespace {

constexpr std::chrono::milliseconds kMaxWait{1000};

class Rendezvous {
 public:
  Rendezvous(const RendezvousPlan& plan, DataListener& listener, const CancelToken& cancel)
      : cancel_(cancel), incoming_(plan, listener) {
    for (const auto& target : plan.outgoing) {
      ET_CHECK(target.to_rank != plan.rank, "no rank connects to itself");
      outgoing_.emplace_back(plan, target);
    }
  }

  Result<std::vector<PeerSocket>> run(Deadline deadline) {
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      for (auto& peer : outgoing_) peer.advance(now);
      incoming_.advance(now);
      if (done()) return take();
      if (auto status = agreement(); !status) return status.error();
      if (cancel_.cancelled()) return Error{ErrorCode::kAborted, "building the communicator was cancelled"};
      if (now >= deadline) return Error{ErrorCode::kTimeout, "not all peers were reached in time: " + missing()};
      wait(now, deadline);
    }
  }

 private:
  bool done() const {
    return incoming_.done() && std::all_of(outgoing_.begin(), outgoing_.end(), [](auto& peer) { return peer.done(); });
  }

  Status agreement() const {
    for (const auto& peer : outgoing_) {
      if (auto status = peer.agreement(); !status) return status;
    }
    return incoming_.agreement();
  }

  void wait(Deadline now, Deadline deadline) {
    fds_.assign(1, {cancel_.fd(), POLLIN, 0});
    auto until = std::min(deadline, now + kMaxWait);
    for (const auto& peer : outgoing_) {
      if (peer.done()) continue;
      if (peer.fd() >= 0) fds_.push_back({peer.fd(), peer.events(), 0});
      until = std::min(until, peer.retry_at());
    }
    incoming_.add_to(fds_);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    ::poll(fds_.data(), fds_.size(), static_cast<int>(std::max<long long>(left, 0)));
  }

  std::vector<PeerSocket> take() {
    auto sockets = incoming_.take();
    std::transform(outgoing_.begin(), outgoing_.end(), std::back_inserter(sockets),
                   [](auto& peer) { return peer.take(); });
    return sockets;
  }

  std::string missing() const {
    std::string text = incoming_.missing();
    for (const auto& peer : outgoing_) {
      if (peer.done()) continue;
      if (!text.empty()) text += "; ";
      text += peer.last_error();
    }
    return text;
  }

  const CancelToken& cancel_;
  IncomingHandshakes incoming_;
  std::vector<OutgoingHandshake> outgoing_;
  std::vector<pollfd> fds_;
};

}  // namespace

Result<std::vector<PeerSocket>> rendezvous(const RendezvousPlan& plan, DataListener& listener,
                                           const CancelToken& cancel, Deadline deadline) {
  return Rendezvous(plan, listener, cancel).run(deadline);
}

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
  ET_CHECK(done(), "only a peer that has proved itself is taken");
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

namespace {

constexpr std::size_t kMaxPending = 256;
constexpr std::chrono::seconds kPatience{5};

}  // namespace

void IncomingHandshakes::add_to(std::vector<pollfd>& fds) const {
  for (std::size_t i = 0; i < listener_.size(); ++i) fds.push_back({listener_.fd(i), POLLIN, 0});
  for (const auto& pending : pending_) fds.push_back({pending.socket.fd(), POLLIN, 0});
}

void IncomingHandshakes::advance(Deadline now) {
  for (std::size_t i = 0; i < listener_.size(); ++i) accept_from(i, now);
  std::erase_if(pending_, [&](Pending& pending) { return read_from(pending) || now - pending.since > kPatience; });
}

void IncomingHandshakes::accept_from(std::size_t listener_index, Deadline now) {
  for (;;) {
    const int fd = ::accept4(listener_.fd(listener_index), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    const bool is_unix = listener_.is_unix(listener_index);
    if (is_unix && !peer_has_own_uid(fd)) {
      Socket(fd).reset();
      ++refused_;
      continue;
    }
    if (pending_.size() == kMaxPending) pending_.erase(pending_.begin());
    pending_.push_back({.socket = Socket(fd), .is_unix = is_unix, .since = now});
  }
}

bool IncomingHandshakes::read_from(Pending& pending) {
  while (true) {
    const auto awaited = pending.challenged ? std::span<std::byte>(pending.proof) : pending.hello;
    const ssize_t n =
        ::recv(pending.socket.fd(), awaited.data() + pending.received, awaited.size() - pending.received, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n <= 0) return true;
    pending.received += static_cast<std::size_t>(n);
    if (pending.received < awaited.size()) continue;
    if (pending.challenged) {
      settle(pending);
      return true;
    }
    if (!challenge(pending)) return true;
  }
}

// False: the connection is refused.
bool IncomingHandshakes::challenge(Pending& pending) {
  const auto handshake = decode_handshake(pending.hello);
  if (!handshake || !expected(*handshake, pending.is_unix)) {
    ++refused_;
    return false;
  }
  const Nonce nonce = make_nonce();
  const auto level = level_of(pending);
  const auto bytes = encode(Challenge{nonce, prove(plan_.token, Side::kAcceptor, pending.hello, nonce, level), level});
  pending.expected_proof = prove(plan_.token, Side::kConnector, pending.hello, nonce, level);
  pending.secrets = record_secrets(plan_.token, Side::kAcceptor, pending.hello, nonce, level);
  pending.challenged = *handshake;
  pending.received = 0;
  return ::send(pending.socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

protocol::Encryption IncomingHandshakes::level_of(const Pending& pending) const {
  return pending.is_unix ? protocol::Encryption::kNone : plan_.encryption;
}

void IncomingHandshakes::settle(Pending& pending) {
  if (same_mac(pending.proof, pending.expected_proof)) return keep(pending, *pending.challenged);
  ++refused_;
}

bool IncomingHandshakes::expected(const Handshake& handshake, bool is_unix) const {
  if (handshake.generation != plan_.generation || handshake.to_rank != plan_.rank) return false;
  if (handshake.purpose == Purpose::kShmGroup && !is_unix) return false;
  return std::any_of(plan_.incoming.begin(), plan_.incoming.end(), [&](const auto& incoming) {
    return incoming.purpose == handshake.purpose && incoming.from_rank == handshake.from_rank;
  });
}

// A peer that has authenticated itself a second time has abandoned its first connection.
void IncomingHandshakes::keep(Pending& pending, const Handshake& handshake) {
  agreement_ = check_levels({plan_.rank, level_of(pending)}, {handshake.from_rank, handshake.encryption});
  if (!agreement_) return;
  const auto ack = handshake_ack();
  if (::send(pending.socket.fd(), ack.data(), ack.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(ack.size())) return;
  if (!pending.is_unix) tune_tcp(pending.socket.fd());
  std::erase_if(arrived_, [&](const PeerSocket& other) {
    return other.purpose == handshake.purpose && other.peer_rank == handshake.from_rank;
  });
  Channel channel(std::move(pending.socket), pending.secrets, name_ends(handshake.from_rank, plan_.rank));
  arrived_.push_back({std::move(channel), handshake.purpose, handshake.from_rank, true});
}

std::string IncomingHandshakes::missing() const {
  std::string text;
  for (const auto& incoming : plan_.incoming) {
    const bool here = std::any_of(arrived_.begin(), arrived_.end(), [&](const PeerSocket& peer) {
      return peer.purpose == incoming.purpose && peer.peer_rank == incoming.from_rank;
    });
    if (here) continue;
    if (!text.empty()) text += "; ";
    text += "rank " + std::to_string(incoming.from_rank) + " (" + to_string(incoming.purpose) + ") did not connect";
  }
  if (!text.empty() && refused_ > 0) text += "; " + std::to_string(refused_) + " other connections were refused";
  return text;
}

}  // namespace elastictrain::comm
