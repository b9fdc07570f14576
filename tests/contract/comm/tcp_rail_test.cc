// A rail over sockets, alone: its sums and copies with worked numbers, and what it does when a peer is not there, ends
// in the middle, says something else, or everything is aborted.
#include "train/comm/tcp_rail.h"

#include <doctest/doctest.h>

#include <functional>
#include <numeric>
#include <optional>

#include "tests/contract/comm/wires.h"
#include "tests/support/contains.h"
#include "tests/support/in_a_process.h"

namespace elastictrain::comm::testing {
namespace {

using elastictrain::test::contains;

constexpr std::chrono::milliseconds kNoLimit{0};

// All positions of one rail, each on a thread of its own.
struct Rails {
  explicit Rails(std::size_t size, Algorithm algorithm = Algorithm::kAuto)
      : control(kNoLimit, size, 1), ranks(ranks_of(size)) {
    auto links = all_links(ranks);
    for (std::size_t position = 0; position < size; ++position) {
      rails.push_back(std::make_unique<TcpRail>(ranks, position, std::move(links[position]), algorithm, control));
    }
  }
  void use_trees(protocol::Topology topology) {
    Layout layout;
    for (std::uint32_t rank = 0; rank < rails.size(); ++rank) layout.hosts.push_back({rank});
    for (std::size_t position = 0; position < rails.size(); ++position) {
      layout.host = position;
      auto trees = make_tree_layout(topology, {}, layout, static_cast<std::uint32_t>(position));
      REQUIRE(trees.has_value());
      trees->plan->members = ranks;
      rails[position]->use_trees(*trees->plan);
    }
  }
  void run(const std::function<Status(TcpRail&, std::size_t)>& body) {
    std::vector<Status> statuses(rails.size());
    std::vector<std::thread> threads;
    for (std::size_t position = 0; position < rails.size(); ++position) {
      threads.emplace_back([&, position] { statuses[position] = body(*rails[position], position); });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& status : statuses) {
      if (!status) FAIL(status.error().message);
    }
  }

  OpControl control;
  Ranks ranks;
  std::vector<std::unique_ptr<TcpRail>> rails;
};

// Position p gives 2(p+1) + i%5 for number i, scaled by a half, and p+1 in the lane.
void check_sums(Rails& rails, std::size_t count) {
  CAPTURE(count);
  const std::size_t size = rails.rails.size();
  const auto ranks_sum = static_cast<float>(size * (size + 1) / 2);
  std::vector<int> wrong(size);
  rails.run([&](TcpRail& rail, std::size_t position) {
    const auto mine = static_cast<float>(position + 1);
    std::vector<float> data(count);
    std::vector<float> lane{mine, -mine};
    for (std::size_t i = 0; i < count; ++i) data[i] = 2 * mine + static_cast<float>(i % 5);
    const std::vector<float> before = data;
    std::vector<float> keep(count);
    const auto status = rail.all_reduce(ReduceVector(data, lane, 0.5F, keep), nullptr);
    for (std::size_t i = 0; i < count; ++i) {
      wrong[position] += data[i] != ranks_sum + 0.5F * static_cast<float>(size * (i % 5));
    }
    wrong[position] += lane != std::vector<float>{ranks_sum, -ranks_sum};
    wrong[position] += keep != before;
    return status;
  });
  CHECK(wrong == std::vector<int>(size));
}

// Nothing, one number, and the borders of blocks (16 numbers), of the small way (32 and 64 KiB with the lane) and of
// the buffers between.
const std::vector<std::size_t> kCounts{0, 1, 13, 14, 15, 16, 30, 31, 47, 8190, 8191, 16382, 16383, 100'003};

TEST_CASE("every position gets the exact sum, whatever the size, the way and the number of positions") {
  for (const std::size_t size : {2, 3, 4, 5, 7}) {
    for (const Algorithm algorithm : {Algorithm::kAuto, Algorithm::kRing, Algorithm::kTree}) {
      CAPTURE(size);
      Rails rails(size, algorithm);
      for (const std::size_t count : kCounts) check_sums(rails, count);
    }
  }
}

TEST_CASE("the same over the trees of every topology") {
  for (const auto topology : {protocol::Topology::kStar, protocol::Topology::kClique, protocol::Topology::kBinaryTree,
                              protocol::Topology::kRing}) {
    Rails rails(5);
    rails.use_trees(topology);
    for (const std::size_t count : kCounts) check_sums(rails, count);
  }
}

// Every block holds the number of its position, as often as it is long.
void check_shares(Rails& rails, const std::vector<std::size_t>& bytes) {
  rails.run([&](TcpRail& rail, std::size_t position) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<Pieces> blocks(bytes.size());
    for (std::size_t block = 0; block < bytes.size(); ++block) {
      memory.emplace_back(bytes[block], static_cast<std::byte>(block == position ? block + 1 : 99));
    }
    for (std::size_t block = 0; block < bytes.size(); ++block) {  // in two pieces each
      blocks[block].add(std::span(memory[block]).first(bytes[block] / 3));
      blocks[block].add(std::span(memory[block]).subspan(bytes[block] / 3));
    }
    const auto status = rail.share(blocks);
    for (std::size_t block = 0; block < bytes.size() && status; ++block) {
      if (memory[block] != std::vector<std::byte>(bytes[block], static_cast<std::byte>(block + 1))) {
        return Status(Error{ErrorCode::kInternal, "block " + std::to_string(block) + " is wrong"});
      }
    }
    return status;
  });
}

TEST_CASE("every position gets every block, of any size, also of none") {
  for (const std::size_t size : {2, 3, 5}) {
    for (const bool trees : {false, true}) {
      CAPTURE(size);
      CAPTURE(trees);
      Rails rails(size);
      if (trees) rails.use_trees(protocol::Topology::kBinaryTree);
      std::vector<std::size_t> bytes{0, 1, 300'001, 17, 4096};
      for (std::size_t turn = 0; turn < bytes.size(); ++turn) {
        std::rotate(bytes.begin(), bytes.begin() + 1, bytes.end());
        check_shares(rails, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
      }
      check_shares(rails, std::vector<std::size_t>(size));
    }
  }
}

TEST_CASE("norms are those of the input before it is scaled, and of the sum, without the lane") {
  for (const Algorithm algorithm : {Algorithm::kTree, Algorithm::kRing}) {
    Rails rails(2, algorithm);
    std::vector<ReduceStats> stats(2);
    rails.run([&](TcpRail& rail, std::size_t position) {
      std::vector<float> data = position == 0 ? std::vector<float>{3, 4} : std::vector<float>{1, 2};
      std::vector<float> lane{10};
      return rail.all_reduce(ReduceVector(data, lane, position == 0 ? 1.0F : 0.5F), &stats[position]);
    });
    CHECK(stats[0].local_square_sum == 25);
    CHECK(stats[1].local_square_sum == 5);
    CHECK(stats[0].reduced_square_sum == 3.5 * 3.5 + 5 * 5);
    CHECK(stats[1].reduced_square_sum == stats[0].reduced_square_sum);
  }
}

TEST_CASE("messages and exchanges pass between two positions, of any size, and two that differ are refused") {
  Rails rails(2);
  const auto [low, high] = std::pair(rails.ranks[0], rails.ranks[1]);
  for (const std::size_t size : {0, 1, 20'000}) {
    std::vector<std::byte> received(size), longer(size + 3);
    rails.run([&, low = low, high = high](TcpRail& rail, std::size_t position) {
      if (position == 0) return rail.send(high, std::vector<std::byte>(size, std::byte{5}));
      return rail.receive(low, received);
    });
    CHECK(received == std::vector<std::byte>(size, std::byte{5}));
    rails.run([&, low = low, high = high](TcpRail& rail, std::size_t position) {
      if (position == 0) return rail.exchange(high, std::vector<std::byte>(size, std::byte{6}), longer);
      return rail.exchange(low, std::vector<std::byte>(size + 3, std::byte{7}), received);
    });
    CHECK(received == std::vector<std::byte>(size, std::byte{6}));
    CHECK(longer == std::vector<std::byte>(size + 3, std::byte{7}));
  }
  CHECK(rails.rails[0]->reaches(high));
  CHECK_FALSE(rails.rails[0]->reaches(high + 1));
  CHECK(rails.rails[0]->send(high + 1, {}).error().code == ErrorCode::kInvalid);
}

// --- One position, whose peer is the test

struct Alone {
  explicit Alone(Algorithm algorithm = Algorithm::kAuto) : control(kNoLimit, 1, 1) {
    auto ends = wire();
    peer.emplace(std::move(ends[1]), ends[0].fd());
    std::vector<Link> links;
    links.emplace_back(Channel(std::move(ends[0])), 7);
    rail = std::make_unique<TcpRail>(Ranks{4, 7}, 0, std::move(links), algorithm, control);
  }
  ~Alone() {
    control.request_abort();  // where a check has failed
    if (thread.joinable()) thread.join();
  }
  // On a thread of its own: 1, 2, 3…
  void begin_sum(std::size_t count) {
    data.resize(count);
    std::iota(data.begin(), data.end(), 1.0F);
    before = data;
    keep.assign(count, -1);
    thread = std::thread([this] { status = rail->all_reduce(ReduceVector(data, {}, 2.0F, keep), nullptr); });
  }
  void begin_share(std::size_t bytes) {
    memory.assign(2 * bytes, std::byte{1});
    thread = std::thread([this, bytes] {
      std::vector<Pieces> blocks(2);
      blocks[0].add(std::span(memory).first(bytes));
      blocks[1].add(std::span(memory).subspan(bytes));
      status = rail->share(blocks);
    });
  }
  void join() { thread.join(); }

  OpControl control;
  std::optional<Peer> peer;
  std::unique_ptr<TcpRail> rail;
  std::vector<float> data, before, keep;
  std::vector<std::byte> memory;
  std::thread thread;
  Status status;
};

TEST_CASE("a small sum is one header and the scaled numbers, in each direction") {
  Alone alone;
  alone.begin_sum(3);
  const auto header = alone.peer->hear_header();
  CHECK(header == LinkHeader{'a', 1, 12});
  CHECK(alone.peer->hear(3) == std::vector<float>{2, 4, 6});
  alone.peer->say('a', 1, 12);
  alone.peer->say_in_pieces({10, 20, 30}, 5);
  alone.join();
  CHECK(alone.status.ok());
  CHECK(alone.data == std::vector<float>{12, 24, 36});
  CHECK(alone.keep == alone.before);
  CHECK(alone.rail->traffic().bytes_sent == 28);
  CHECK(alone.rail->peers().at(0).bytes_received == 28);
}

TEST_CASE("a large sum moves around the ring: two halves are added, then copied") {
  Alone alone(Algorithm::kRing);
  alone.begin_sum(32);  // two blocks of 16
  CHECK(alone.peer->hear_header() == LinkHeader{'a', 1, 128});
  CHECK(alone.peer->hear(16).back() == 32);  // its own block, scaled
  alone.peer->say('a', 1, 128);
  alone.peer->say_in_pieces(std::vector<float>(16, 1000), 7);  // the peer's values of the second block
  CHECK(alone.peer->hear(16).front() == 1000 + 2 * 17);        // which is summed here
  alone.peer->say(std::vector<float>(16, 5));                  // the sum of the first block
  alone.join();
  REQUIRE(alone.status.ok());
  CHECK(alone.data[0] == 5);
  CHECK(alone.data[15] == 5);
  CHECK(alone.data[16] == 1034);
  CHECK(alone.data[31] == 1064);
}

TEST_CASE("a peer that ends in the middle is named, and the input is kept whole") {
  for (const std::size_t count : {10, 40'000}) {
    for (const std::size_t said : {0, 3, 16, 18, 28}) {
      CAPTURE(count);
      CAPTURE(said);
      Alone alone;
      alone.begin_sum(count);
      std::vector<std::byte> bytes(28);
      const LinkHeader header{'a', 1, count * sizeof(float)};
      std::memcpy(bytes.data(), &header, sizeof header);
      alone.peer->say(std::span(bytes).first(said));
      alone.peer->await_taken();
      alone.peer->leave();
      alone.join();
      REQUIRE_FALSE(alone.status.ok());
      CHECK(alone.status.error().code == ErrorCode::kPeerLost);
      CHECK(contains(alone.status.error().message, "lost rank 7"));
      CHECK(alone.keep == alone.before);
    }
  }
}

TEST_CASE("an abort ends a sum in every phase of it, and the input is kept whole") {
  for (const std::size_t count : {10, 40'000}) {
    for (const std::size_t said : {0, 3, 16, 18, 28}) {
      CAPTURE(count);
      CAPTURE(said);
      Alone alone;
      alone.begin_sum(count);
      std::vector<std::byte> bytes(28);
      const LinkHeader header{'a', 1, count * sizeof(float)};
      std::memcpy(bytes.data(), &header, sizeof header);
      alone.peer->say(std::span(bytes).first(said));
      alone.peer->await_taken();
      alone.control.request_abort();
      alone.join();
      REQUIRE_FALSE(alone.status.ok());
      CHECK(alone.status.error().code == ErrorCode::kAborted);
      CHECK(alone.keep == alone.before);
    }
  }
}

TEST_CASE("an abort ends a share that waits for its peer, before its header and in its block") {
  for (const bool has_header : {false, true}) {
    Alone alone;
    alone.begin_share(50'000);
    if (has_header) {
      alone.peer->say('s', 1, 100'000);
      alone.peer->say(std::vector<float>(10));
      alone.peer->await_taken();
    }
    alone.control.request_abort();
    alone.join();
    REQUIRE_FALSE(alone.status.ok());
    CHECK(alone.status.error().code == ErrorCode::kAborted);
  }
}

TEST_CASE("a peer that sums another size, another type or calls something else is named with both") {
  const auto said_by = [](char kind, std::uint32_t sequence, std::uint64_t bytes) {
    Alone alone;
    alone.begin_sum(10);
    (void)alone.peer->hear_header();
    (void)alone.peer->hear(10);
    alone.peer->say(kind, sequence, bytes);
    alone.peer->leave();
    alone.join();
    REQUIRE_FALSE(alone.status.ok());
    CHECK(alone.status.error().code == ErrorCode::kMismatch);
    CHECK(alone.keep == alone.before);
    return alone.status.error().message;
  };
  CHECK(contains(said_by('a', 1, 44), "here number 1 with 40 bytes, at rank 7 number 1 with 44 bytes"));
  CHECK(contains(said_by('a', 2, 40), "at rank 7 number 2 with 40 bytes"));
  CHECK(contains(said_by('h', 1, 40), "It is a sum of float32 here and a sum of float16 there."));
  CHECK(contains(said_by('s', 1, 40), "a sum of float32 here and an exchange of bytes there"));
}

TEST_CASE("a peer that has closed its connection is known to be gone without a call") {
  Alone alone;
  CHECK(alone.rail->check_peers().ok());
  alone.peer->leave();
  const auto status = alone.rail->check_peers();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kPeerLost);
  CHECK(contains(status.error().message, "rank 7 closed its connection"));
}

TEST_CASE("what a wait also watches ends a sum that waits") {
  Alone alone;
  auto other = wire();
  alone.rail->watch(other[0].fd(), [] { return Status(Error{ErrorCode::kPeerLost, "local rank 1 exited"}); });
  alone.begin_sum(10);
  alone.join();
  REQUIRE_FALSE(alone.status.ok());
  CHECK(alone.status.error().message == "local rank 1 exited");
}

TEST_CASE("a position beyond the members, a link to nobody and a block too few end the process") {
  using elastictrain::test::in_a_process;
  const OpControl control(kNoLimit, 1, 1);
  CHECK(in_a_process([&] {
          TcpRail({4, 7}, 2, {}, Algorithm::kAuto, control);
        }).violated("a rank on a rail has a position among its members"));
  CHECK(in_a_process([&] {
          std::vector<Link> links;
          links.emplace_back(Channel(), 9);
          TcpRail({4, 7}, 0, std::move(links), Algorithm::kAuto, control);
        }).violated("a rail's links lead to its members"));
  CHECK(in_a_process([&] {
          TcpRail rail({4, 7}, 0, {}, Algorithm::kAuto, control);
          std::vector<Pieces> blocks(1);
          (void)rail.share(blocks);
        }).violated("every member of a rail has one block"));
  CHECK(in_a_process([&] {
          TcpRail rail({4, 7}, 0, {}, Algorithm::kAuto, control);
          std::vector<Pieces> blocks(2);
          (void)rail.share(blocks);
        }).violated("the topology has a link wherever a collective operation needs one"));
}

}  // namespace
}  // namespace elastictrain::comm::testing
