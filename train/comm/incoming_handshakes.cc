#include "train/comm/incoming_handshakes.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "train/comm/peer_credentials.h"

namespace elastictrain::comm {
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
