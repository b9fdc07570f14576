// Streams of blocks around a ring and along trees, one position at a time, whose neighbours are the test.
#include "train/comm/block_streams.h"

#include <doctest/doctest.h>

#include <optional>

#include "tests/contract/comm/wires.h"
#include "tests/support/contains.h"
#include "tests/support/in_a_process.h"

namespace elastictrain::comm::testing {
namespace {

using elastictrain::test::contains;
using Floats = std::vector<float>;

// A stream on a thread of its own, with a neighbour behind each link.
struct Streaming {
  explicit Streaming(std::size_t neighbours) : control(std::chrono::milliseconds(0), 1, 1) {
    for (std::size_t i = 0; i < neighbours; ++i) {
      auto ends = wire();
      const int own = ends[0].fd();
      links.emplace_back(Channel(std::move(ends[0])), static_cast<std::uint32_t>(20 + i));
      peers.emplace_back(std::move(ends[1]), own);
    }
  }
  ~Streaming() { end(); }
  // Where a check has failed.
  void end() {
    control.request_abort();
    if (thread.joinable()) thread.join();
  }
  template <class Run>
  void begin(Run run) {
    thread = std::thread([this, run] {
      LinkWait wait(control, -1, no_watch);
      status = run(wait);
    });
  }
  void join() { thread.join(); }
  void greet_all(std::uint64_t bytes) {
    for (auto& peer : peers) peer.say('a', 1, bytes);
  }

  OpControl control;
  std::function<Status()> no_watch;
  std::vector<Link> links;
  std::vector<Peer> peers;
  std::vector<std::byte> scratch = std::vector<std::byte>(64);
  std::thread thread;
  Status status;
};

Floats times(std::size_t count, float value) {
  return Floats(count, value);
}

// --- Around a ring

TEST_CASE("in a ring of three the middle one sends its own block, adds to two and passes the sums on") {
  Streaming ring(2);
  Floats data = times(16, 1);
  for (const float value : {2.0F, 3.0F}) data.insert(data.end(), value == 2 ? 16 : 8, value);
  ReduceVector vector(data, {}, 2.0F);
  ReduceWork work(vector, 3, nullptr);
  REQUIRE(work.block_size(0) == 64);
  REQUIRE(work.block_size(2) == 32);
  RingStream stream(work, 1, 3, 2, 4, ring.scratch);
  ring.begin([&](LinkWait& wait) { return stream.run(ring.links[0], ring.links[1], {'a', 1, 160}, wait); });
  Peer& next = ring.peers[0];
  Peer& previous = ring.peers[1];
  CHECK(next.hear_header() == LinkHeader{'a', 1, 160});
  CHECK(next.hear(16) == times(16, 4));
  previous.say('a', 1, 160);
  previous.say_in_pieces(times(16, 10), 7);
  CHECK(next.hear(16) == times(16, 12));
  previous.say_in_pieces(times(8, 20), 3);
  CHECK(next.hear(8) == times(8, 26));
  previous.say(times(16, 100));
  CHECK(next.hear(16) == times(16, 100));
  previous.say(times(16, 200));
  ring.join();
  REQUIRE(ring.status.ok());
  Floats expected = times(16, 200);
  expected.insert(expected.end(), 16, 100);
  expected.insert(expected.end(), 8, 26);
  CHECK(data == expected);
}

TEST_CASE("a ring that only copies forwards what it receives, and skips a block of nothing") {
  Streaming ring(2);
  std::vector<std::byte> first(5), last(3);
  std::vector<Pieces> blocks(3);
  blocks[0].add(std::span(first).first(2));
  blocks[0].add(std::span(first).subspan(2));
  blocks[2].add(std::span(last));
  ShareWork work(blocks);
  RingStream stream(work, 1, 3, 0, 2, ring.scratch);
  ring.begin([&](LinkWait& wait) { return stream.run(ring.links[0], ring.links[1], {'a', 1, 8}, wait); });
  ring.peers[1].say('a', 1, 8);
  ring.peers[1].say(std::vector<std::byte>(5, std::byte{1}));
  CHECK(ring.peers[0].hear_header().bytes == 8);
  std::vector<std::byte> heard(5);
  ring.peers[0].hear(heard);
  CHECK(heard == std::vector<std::byte>(5, std::byte{1}));
  ring.peers[1].say(std::vector<std::byte>(3, std::byte{2}));
  ring.join();
  REQUIRE(ring.status.ok());
  CHECK(first == std::vector<std::byte>(5, std::byte{1}));
  CHECK(last == std::vector<std::byte>(3, std::byte{2}));
}

// --- Along trees

// One number of each position, or several, in one block, and this position's edges.
struct Tree : Streaming {
  Tree(std::size_t neighbours, LinkEdges of, Floats values, float scale = 1)
      : Streaming(neighbours),
        edges(std::move(of)),
        data(std::move(values)),
        vector(data, {}, scale),
        work(vector, 1, nullptr) {
    stream.emplace(work, links, scratch);
    const BlockRoute route{0, &edges};
    stream->plan(std::span(&route, 1), 0);
  }
  ~Tree() { end(); }
  void run() {
    begin([this](LinkWait& wait) { return stream->run({'a', 1, data.size() * sizeof(float)}, wait); });
  }
  std::uint64_t bytes() const { return data.size() * sizeof(float); }

  LinkEdges edges;
  Floats data;
  ReduceVector vector;
  ReduceWork work;
  std::optional<TreeStream> stream;
};

TEST_CASE("a root adds what its child says, whatever the pieces, and sends the sum down") {
  for (const std::size_t piece : {1, 3, 4, 5, 20}) {
    CAPTURE(piece);
    Tree root(1, {{0}, {}, {}, {0}}, {1, 2, 3, 4, 5}, 2);
    root.run();
    root.greet_all(root.bytes());
    root.peers[0].say_in_pieces({10, 20, 30, 40, 50}, piece);
    CHECK(root.peers[0].hear_header() == LinkHeader{'a', 1, 20});
    CHECK(root.peers[0].hear(5) == Floats{12, 24, 36, 48, 60});
    root.join();
    REQUIRE(root.status.ok());
    CHECK(root.data == Floats{12, 24, 36, 48, 60});
  }
}

TEST_CASE("children are added in their order, so that the bits are the same whoever is first") {
  Tree root(2, {{0, 1}, {}, {}, {0, 1}}, {1e8F});
  root.run();
  root.greet_all(4);
  root.peers[1].say({1});
  // The second child's number waits in the connection until the first one's has been added.
  while (root.peers[0].waiting() > 0 || root.peers[1].waiting() > 4) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(root.peers[1].waiting() == 4);
  root.peers[0].say({-1e8F});
  root.join();
  REQUIRE(root.status.ok());
  CHECK(root.data == Floats{1});  // (1e8 - 1e8) + 1; the other order gives 0
}

TEST_CASE("a leaf sends its scaled numbers and takes the sum") {
  Tree leaf(1, {{}, {0}, {0}, {}}, {1, 2, 3}, 2);
  leaf.run();
  CHECK(leaf.peers[0].hear_header().bytes == 12);
  CHECK(leaf.peers[0].hear(3) == Floats{2, 4, 6});
  leaf.greet_all(12);
  leaf.peers[0].say_in_pieces({7, 8, 9}, 5);
  leaf.join();
  REQUIRE(leaf.status.ok());
  CHECK(leaf.data == Floats{7, 8, 9});
}

TEST_CASE("one in between passes the partial sum up and the sum down") {
  Tree middle(2, {{1}, {0}, {0}, {1}}, {1});
  middle.run();
  middle.greet_all(4);
  middle.peers[1].say({10});
  CHECK(middle.peers[0].hear_header().bytes == 4);
  CHECK(middle.peers[0].hear(1) == Floats{11});
  middle.peers[0].say({50});
  CHECK(middle.peers[1].hear_header().bytes == 4);
  CHECK(middle.peers[1].hear(1) == Floats{50});
  middle.join();
  REQUIRE(middle.status.ok());
  CHECK(middle.data == Floats{50});
}

TEST_CASE("a block of nothing is only a header on every edge") {
  Tree middle(2, {{1}, {0}, {0}, {1}}, {});
  middle.run();
  middle.greet_all(0);
  for (auto& peer : middle.peers) CHECK(peer.hear_header().bytes == 0);
  middle.join();
  CHECK(middle.status.ok());
}

TEST_CASE("a neighbour that ends in the middle of its block is named") {
  Tree root(2, {{0, 1}, {}, {}, {0, 1}}, {1, 2, 3});
  root.run();
  root.greet_all(12);
  root.peers[0].say({1, 2, 3});
  root.peers[1].say({1});
  root.peers[1].await_taken();
  root.peers[1].leave();
  root.join();
  REQUIRE_FALSE(root.status.ok());
  CHECK(root.status.error().code == ErrorCode::kPeerLost);
  CHECK(contains(root.status.error().message, "lost rank 21"));
}

TEST_CASE("a neighbour with another size is named, also where no block passes") {
  Streaming greeted(1);
  Floats data{1};
  ReduceVector vector(data, {}, 1);
  ReduceWork work(vector, 1, nullptr);
  TreeStream stream(work, greeted.links, greeted.scratch);
  stream.greet(0);
  greeted.begin([&](LinkWait& wait) { return stream.run({'a', 1, 4}, wait); });
  greeted.peers[0].say('a', 1, 8);
  greeted.join();
  REQUIRE_FALSE(greeted.status.ok());
  CHECK(greeted.status.error().code == ErrorCode::kMismatch);
  CHECK(contains(greeted.status.error().message, "at rank 20 number 1 with 8 bytes"));
}

TEST_CASE("an abort ends a stream that waits for a header, for a child, or for its sum") {
  for (const int phase : {0, 1, 2}) {
    CAPTURE(phase);
    Tree middle(2, {{1}, {0}, {0}, {1}}, {1, 2});
    middle.run();
    if (phase > 0) middle.greet_all(8);
    if (phase == 2) middle.peers[1].say({1, 2});
    for (auto& peer : middle.peers) peer.await_taken();
    middle.control.request_abort();
    middle.join();
    REQUIRE_FALSE(middle.status.ok());
    CHECK(middle.status.error().code == ErrorCode::kAborted);
  }
}

// --- What must hold

TEST_CASE("a position beyond the ring, a link beyond the links and bytes beyond a block end the process") {
  using elastictrain::test::in_a_process;
  Streaming one(1);
  Floats data{1};
  ReduceVector vector(data, {}, 1);
  ReduceWork work(vector, 1, nullptr);
  CHECK(in_a_process([&] {
          RingStream(work, 3, 3, 2, 4, one.scratch);
        }).violated("a ring has at least two positions, and a stream one of them"));
  CHECK(in_a_process([&] {
          TreeStream(work, one.links, one.scratch).greet(1);
        }).violated("a stream greets over its own links"));
  std::vector<std::byte> memory(8), more(5);
  Pieces pieces;
  pieces.add(std::span(memory));
  CHECK(in_a_process([&] { pieces.put(4, more); }).violated("what is written to a block is in it"));
  CHECK(in_a_process([&] { pieces.get(4, more); }).violated("what is read of a block is in it"));
  CHECK(in_a_process([&] { (void)vector.slice(0, 2); }).violated("a slice is a part of its vector"));
}

}  // namespace
}  // namespace elastictrain::comm::testing
