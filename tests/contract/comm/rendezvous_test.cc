// Building: which ranks are admitted, what happens if one is missing, and the connections for state.
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>

#include "tests/contract/comm/world.h"
#include "train/comm/rendezvous.h"
#include "train/comm/socket.h"

namespace elastictrain::comm::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::vector<Shape> both_transports() {
  return {shm(2), tcp(2)};
}

TEST_CASE("a build without its peer ends at the deadline and names the missing rank") {
  for (const auto& shape : both_transports()) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      CAPTURE(shape.name);
      CAPTURE(rank);
      World world(shape);
      auto spec = world.spec(rank);
      spec.deadline = steady_clock::now() + milliseconds(80);
      CancelToken cancel;
      const auto built = build_cpu_communicator(spec, world.listener(rank), cancel);
      REQUIRE_FALSE(built.ok());
      CHECK(built.error().code == ErrorCode::kTimeout);
      CHECK(built.error().message.find("rank " + std::to_string(1 - rank)) != std::string::npos);
    }
  }
}

TEST_CASE("a build can be cancelled from another thread") {
  for (const auto& shape : both_transports()) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      CAPTURE(shape.name);
      CAPTURE(rank);
      World world(shape);
      CancelToken cancel;
      std::thread other([&] {
        std::this_thread::sleep_for(milliseconds(20));
        cancel.cancel();
      });
      const auto built = build_cpu_communicator(world.spec(rank), world.listener(rank), cancel);
      other.join();
      REQUIRE_FALSE(built.ok());
      CHECK(built.error().code == ErrorCode::kAborted);
    }
  }
}

TEST_CASE("a list of parents that is not a tree is refused at once") {
  World world(tcp(3));
  for (const std::vector<std::uint32_t>& parents : {std::vector<std::uint32_t>{0, 0}, {0, 2, 1}, {0, 7, 0}}) {
    auto spec = world.spec(1);
    spec.parents = parents;
    CancelToken cancel;
    const auto built = build_cpu_communicator(spec, world.listener(1), cancel);
    REQUIRE_FALSE(built.ok());
    CHECK(built.error().code == ErrorCode::kInvalid);
  }
}

TEST_CASE("a peer with a wrong token is refused, and the right one still gets in afterwards") {
  for (const auto& shape : both_transports()) {
    CAPTURE(shape.name);
    World world(shape);
    auto forged = world.spec(1);
    forged.token.fill(0xee);
    forged.deadline = steady_clock::now() + milliseconds(150);
    std::unique_ptr<Communicator> comm;
    std::thread honest([&] { comm = world.build(0); });
    CancelToken cancel;
    const auto refused = build_cpu_communicator(forged, world.listener(1), cancel);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("token") != std::string::npos);
    const auto accepted = world.build(1);
    honest.join();
    CHECK(accepted->world_size() == 2);
  }
}

TEST_CASE("a peer that prepares late is waited for, on both sides") {
  for (const auto& shape : both_transports()) {
    for (std::uint32_t late = 0; late < 2; ++late) {
      CAPTURE(shape.name);
      World world(shape);
      std::unique_ptr<Communicator> early;
      std::thread other([&] { early = world.build(1 - late, 2); });
      // The late rank is still busy with another generation, which it abandons.
      auto stale = world.spec(late, 1);
      stale.deadline = steady_clock::now() + milliseconds(50);
      CancelToken cancel;
      CHECK_FALSE(build_cpu_communicator(stale, world.listener(late), cancel).ok());
      const auto comm = world.build(late, 2);
      other.join();
      CHECK(early->generation() == 2);
    }
  }
}

TEST_CASE("foreign connections that are silent, send malformed data or close do not disturb a build") {
  World world(tcp(2));
  const auto endpoint = world.listener(0).endpoint();
  std::vector<Socket> strangers;
  for (int i = 0; i < 300; ++i) {
    auto address = SocketAddress::tcp(endpoint.addresses[0], endpoint.port);
    Socket stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(stranger.fd(), address->get(), address->size()) == 0);
    const std::string malformed(100, 'x');
    if (i % 3 == 1) CHECK(::send(stranger.fd(), malformed.data(), malformed.size(), MSG_NOSIGNAL) > 0);
    if (i % 3 != 2) strangers.push_back(std::move(stranger));
  }
  std::unique_ptr<Communicator> other;
  std::thread peer([&] { other = world.build(1); });
  const auto comm = world.build(0);
  peer.join();
  CHECK(comm->world_size() == 2);
}

TEST_CASE("sockets for state come with the build: donors send, joiners receive") {
  for (const auto& shape : {shm(3), tcp(3)}) {
    CAPTURE(shape.name);
    World world(shape);
    std::vector<std::string> received(3);
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        CancelToken cancel;
        const std::vector<std::uint32_t> donors{0, 1};
        const std::vector<std::uint32_t> joiners{2};
        const std::vector<std::uint32_t> none;
        const auto spec = world.spec(rank);
        auto built = build_cpu_communicator(spec, world.listener(rank), cancel, rank == 2 ? donors : none,
                                            rank == 2 ? none : joiners);
        if (!built) return;
        for (auto& state : built->state_sockets) {
          std::string text = "state of " + std::to_string(rank);
          const auto bytes = std::as_writable_bytes(std::span(text));
          const auto status = state.receives ? receive_all(state.channel, bytes, cancel, spec.deadline)
                                             : send_all(state.channel, bytes, cancel, spec.deadline);
          if (status && state.receives) received[state.peer_rank] = text;
        }
        if (!built->communicator->barrier()) received[rank] = "barrier";
      });
    }
    for (auto& rank : ranks) rank.join();
    CHECK(received[0] == "state of 0");
    CHECK(received[1] == "state of 1");
  }
}

TEST_CASE("a listener serves several addresses on one port, and reports those that it cannot bind") {
  const auto both = DataListener::open({"host", {"127.0.0.1", "::1"}});
  REQUIRE(both.ok());
  CHECK((*both)->size() == 3);
  CHECK((*both)->endpoint().port != 0);
  const auto foreign = DataListener::open({"host", {"192.0.2.1"}});
  REQUIRE_FALSE(foreign.ok());
  CHECK(foreign.error().message.find("192.0.2.1") != std::string::npos);
  CHECK_FALSE(DataListener::open({"host", {"localhost.example"}}).ok());
}

TEST_CASE("traffic on this machine is not paced, whatever the system's congestion control") {
  World world(tcp(2));
  std::unique_ptr<Communicator> other;
  auto spec = world.spec(1);
  RendezvousPlan accepting{1, spec.token, 0, protocol::Encryption::kNone, {}, {{Purpose::kStateTransfer, 1}}};
  RendezvousPlan connecting{
      1, spec.token, 1, protocol::Encryption::kNone, {{Purpose::kStateTransfer, 0, spec.peers[0], false}}, {}};
  CancelToken cancel;
  std::thread peer([&] {
    const auto sockets = rendezvous(accepting, world.listener(0), cancel, spec.deadline);
    CHECK(sockets.ok());
  });
  const auto sockets = rendezvous(connecting, world.listener(1), cancel, spec.deadline);
  peer.join();
  REQUIRE(sockets.ok());
  const auto options = tcp_options(sockets->front().channel.fd());
  CHECK(options.loopback);
  CHECK(options.congestion_control != "bbr");
  CHECK(options.send_buffer_bytes > 0);
}

}  // namespace
}  // namespace elastictrain::comm::testing
