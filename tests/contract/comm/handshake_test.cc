// How two workers recognise each other, against somebody who sees and changes what passes between them.
#include "train/comm/handshake.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/contract/comm/world.h"
#include "train/comm/rendezvous.h"
#include "train/comm/socket.h"

namespace elastictrain::comm::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPatience{30'000};
constexpr auto kNone = protocol::Encryption::kNone;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string hex(const Mac& mac) {
  std::string text;
  for (const std::byte byte : mac) {
    constexpr const char* digits = "0123456789abcdef";
    text += digits[std::to_integer<int>(byte) / 16];
    text += digits[std::to_integer<int>(byte) % 16];
  }
  return text;
}

TEST_CASE("keyed hashes are those of RFC 4231") {
  const std::vector<std::byte> key(20, std::byte{0x0b});
  CHECK(hex(keyed_hash(key, {bytes_of("Hi There")})) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex(keyed_hash(bytes_of("Jefe"), {bytes_of("what do ya want "), bytes_of("for nothing?")})) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

// What the attacker of these tests can do at one end of a connection.
struct RawPeer {
  Socket socket;

  static RawPeer to(const protocol::Endpoint& endpoint) {
    auto address = SocketAddress::tcp(endpoint.addresses[0], endpoint.port);
    RawPeer peer{Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
    REQUIRE(::connect(peer.socket.fd(), address->get(), address->size()) == 0);
    return peer;
  }
  static RawPeer from(DataListener& listener) {
    pollfd waiting{listener.fd(0), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, kPatience.count()) == 1);
    return {Socket(::accept4(listener.fd(0), nullptr, nullptr, SOCK_CLOEXEC))};
  }
  void send(std::span<const std::byte> bytes) const {
    CHECK(::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }
  // False: the other end has closed the connection.
  bool receive(std::span<std::byte> bytes) const {
    return ::recv(socket.fd(), bytes.data(), bytes.size(), MSG_WAITALL) == static_cast<ssize_t>(bytes.size());
  }
};

struct Transcript {
  HandshakeBytes hello;
  ChallengeBytes challenge;
  Mac proof;
  HandshakeAckBytes ack;
};

// Two ranks of one generation, one of which connects to the other for state.
struct Meeting {
  World world{tcp(2)};
  BuildSpec spec = world.spec(1);
  CancelToken cancel;

  RendezvousPlan accepting(protocol::Encryption level = kNone) const {
    return {1, spec.token, 0, level, {}, {{Purpose::kStateTransfer, 1}}};
  }
  RendezvousPlan connecting(protocol::Encryption level = kNone) const {
    return {1, spec.token, 1, level, {{Purpose::kStateTransfer, 0, spec.peers[0], false}}, {}};
  }
  auto meet(const RendezvousPlan& plan, std::uint32_t rank, milliseconds time) {
    return rendezvous(plan, world.listener(rank), cancel, steady_clock::now() + time);
  }
};

// Passes everything on between a connector and an acceptor, and keeps it.
Transcript observed(Meeting& meeting) {
  auto middle = DataListener::open({"", {"127.0.0.1"}});
  auto plan = meeting.connecting();
  plan.outgoing[0].endpoint = (*middle)->endpoint();
  Transcript seen;
  std::thread connector([&] { CHECK(meeting.meet(plan, 1, kPatience).ok()); });
  std::thread acceptor([&] { CHECK(meeting.meet(meeting.accepting(), 0, kPatience).ok()); });
  const RawPeer near = RawPeer::from(**middle);
  const RawPeer far = RawPeer::to(meeting.spec.peers[0]);
  REQUIRE(near.receive(seen.hello));
  far.send(seen.hello);
  REQUIRE(far.receive(seen.challenge));
  near.send(seen.challenge);
  REQUIRE(near.receive(seen.proof));
  far.send(seen.proof);
  REQUIRE(far.receive(seen.ack));
  near.send(seen.ack);
  connector.join();
  acceptor.join();
  return seen;
}

TEST_CASE("who has seen a handshake opens no connection with it") {
  Meeting meeting;
  const Transcript seen = observed(meeting);
  const auto token = std::as_bytes(std::span(meeting.spec.token));
  for (const std::span<const std::byte> bytes :
       {std::span<const std::byte>(seen.hello), {seen.challenge}, {seen.proof}}) {
    CHECK(std::search(bytes.begin(), bytes.end(), token.begin(), token.end()) == bytes.end());
  }

  std::thread acceptor([&] { CHECK_FALSE(meeting.meet(meeting.accepting(), 0, kPatience).ok()); });
  const RawPeer thief = RawPeer::to(meeting.spec.peers[0]);
  thief.send(seen.hello);
  ChallengeBytes challenge;
  REQUIRE(thief.receive(challenge));
  CHECK(challenge != seen.challenge);
  thief.send(seen.proof);
  HandshakeAckBytes ack;
  CHECK_FALSE(thief.receive(ack));
  meeting.cancel.cancel();
  acceptor.join();
}

// Answers a connector with `challenge_for(its hello)` in the acceptor's place: it closes the connection and sends no
// proof.
template <class ChallengeFor>
void check_refused(Meeting& meeting, ChallengeFor challenge_for) {
  auto middle = DataListener::open({"", {"127.0.0.1"}});
  auto plan = meeting.connecting();
  plan.outgoing[0].endpoint = (*middle)->endpoint();
  std::thread connector([&] { CHECK_FALSE(meeting.meet(plan, 1, kPatience).ok()); });
  const RawPeer impostor = RawPeer::from(**middle);
  HandshakeBytes hello;
  REQUIRE(impostor.receive(hello));
  impostor.send(challenge_for(hello));
  std::array<std::byte, 1> anything{};
  CHECK_FALSE(impostor.receive(anything));
  meeting.cancel.cancel();
  connector.join();
}

TEST_CASE("who has seen a handshake takes no acceptor's place with it") {
  Meeting meeting;
  const Transcript seen = observed(meeting);
  check_refused(meeting, [&](const HandshakeBytes& hello) {
    CHECK(hello != seen.hello);
    return seen.challenge;
  });
}

TEST_CASE("a connector's own proof does not answer it") {
  Meeting meeting;
  check_refused(meeting, [&](const HandshakeBytes& hello) {
    const Nonce nonce = make_nonce();
    return encode(Challenge{nonce, prove(meeting.spec.token, Side::kConnector, hello, nonce, kNone), kNone});
  });
}

TEST_CASE("a stranger does not displace a peer that has authenticated itself") {
  Meeting meeting;
  auto accepting = meeting.accepting();
  accepting.incoming.push_back({Purpose::kRingLink, 1});  // comes last, so that the meeting stays open meanwhile
  auto ring = meeting.connecting();
  ring.outgoing[0].purpose = Purpose::kRingLink;
  std::thread acceptor([&] {
    auto sockets = meeting.meet(accepting, 0, kPatience);
    REQUIRE(sockets.ok());
    for (const auto& peer : *sockets) {
      std::array<std::byte, 1> byte{};
      CHECK(::recv(peer.channel.fd(), byte.data(), 1, MSG_DONTWAIT) == -1);
      CHECK(errno == EAGAIN);
    }
  });
  const auto state = meeting.meet(meeting.connecting(), 1, kPatience);
  REQUIRE(state.ok());
  const RawPeer stranger = RawPeer::to(meeting.spec.peers[0]);
  stranger.send(encode(Handshake{1, Purpose::kStateTransfer, 1, 0, make_nonce()}));
  ChallengeBytes challenge;
  REQUIRE(stranger.receive(challenge));
  stranger.send(Mac{});
  HandshakeAckBytes ack;
  CHECK_FALSE(stranger.receive(ack));
  const auto last = meeting.meet(ring, 1, kPatience);
  CHECK(last.ok());
  acceptor.join();
}

TEST_CASE("a hello of another generation, to another rank or from nobody who is awaited is not answered") {
  Meeting meeting;
  std::thread acceptor([&] { CHECK_FALSE(meeting.meet(meeting.accepting(), 0, kPatience).ok()); });
  const auto is_answered = [&](Handshake hello) {
    const RawPeer peer = RawPeer::to(meeting.spec.peers[0]);
    peer.send(encode(hello));
    ChallengeBytes challenge;
    return peer.receive(challenge);
  };
  const Handshake awaited{1, Purpose::kStateTransfer, 1, 0, make_nonce()};
  CHECK(is_answered(awaited));
  CHECK_FALSE(is_answered({2, Purpose::kStateTransfer, 1, 0, make_nonce()}));
  CHECK_FALSE(is_answered({1, Purpose::kStateTransfer, 1, 1, make_nonce()}));
  CHECK_FALSE(is_answered({1, Purpose::kStateTransfer, 0, 0, make_nonce()}));
  CHECK_FALSE(is_answered({1, Purpose::kRingLink, 1, 0, make_nonce()}));
  meeting.cancel.cancel();
  acceptor.join();
}

TEST_CASE("a handshake survives the wire, and foreign bytes are none") {
  const Handshake handshake{7, Purpose::kTreeLink, 3, 4, make_nonce()};
  auto bytes = encode(handshake);
  const auto back = decode_handshake(bytes);
  REQUIRE(back.has_value());
  CHECK(back->generation == 7);
  CHECK(back->nonce == handshake.nonce);
  CHECK(back->purpose == Purpose::kTreeLink);
  CHECK(back->from_rank == 3);
  CHECK(back->to_rank == 4);
  bytes[0] ^= std::byte{1};
  CHECK_FALSE(decode_handshake(bytes).has_value());
}

}  // namespace
}  // namespace elastictrain::comm::testing
