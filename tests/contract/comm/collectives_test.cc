// The contract of every communicator: the contents of all ranks' buffers after each call.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>

#include "tests/contract/comm/world.h"

namespace elastictrain::comm::testing {
namespace {

const std::vector<std::size_t> kSizes{0, 1, 7, 1024, 5000, 20'000, (1 << 18) + 3};

constexpr std::size_t kPeriod = 101;

float value_of(std::uint32_t rank, std::size_t i) {
  return static_cast<float>((i * 7 + rank * 13) % kPeriod) - 50.0F;
}

// Results of all ranks, checked after the threads have ended: doctest assertions must run on one thread.
template <class T>
class PerRank {
 public:
  explicit PerRank(std::size_t size) : values_(size) {}
  T& operator[](std::uint32_t rank) { return values_[rank]; }
  std::vector<T>& all() { return values_; }

 private:
  std::vector<T> values_;
};

struct Outcome {
  std::string error;
  std::vector<float> data;
  std::vector<float> lane;
  ReduceStats stats;
};

void note(Outcome& outcome, const Status& status) {
  if (!status) outcome.error += status.error().message + "\n";
}

Outcome reduce_once(Communicator& comm, std::size_t count) {
  Outcome outcome;
  outcome.data.resize(count);
  for (std::size_t i = 0; i < count; ++i) outcome.data[i] = value_of(comm.rank(), i);
  note(outcome, comm.all_reduce(outcome.data));
  return outcome;
}

bool is_sum(const std::vector<float>& data, std::size_t ranks, float scale = 1.0F) {
  std::array<float, kPeriod> sums{};
  for (std::size_t i = 0; i < kPeriod; ++i) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) sums[i] += scale * value_of(rank, i);
  }
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] != sums[i % kPeriod]) return false;
  }
  return true;
}

TEST_CASE("an all-reduce leaves the sum of all inputs at every rank, for every size and layout") {
  for (const auto& shape : all_shapes()) {
    CAPTURE(shape.name);
    World world(shape);
    std::vector<PerRank<Outcome>> outcomes(kSizes.size(), PerRank<Outcome>(world.size()));
    world.run([&](Communicator& comm) {
      for (std::size_t i = 0; i < kSizes.size(); ++i) outcomes[i][comm.rank()] = reduce_once(comm, kSizes[i]);
    });
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      CAPTURE(kSizes[i]);
      for (auto& outcome : outcomes[i].all()) {
        CHECK(outcome.error == "");
        CHECK(is_sum(outcome.data, world.size()));
      }
    }
  }
}

TEST_CASE("a gradient of 25 MiB is summed in every kind of layout") {
  for (const auto& shape : {shm(2), shm(3), tcp(2), tcp(3), Shape{"2 hosts with 2 ranks", {2, 2}}}) {
    CAPTURE(shape.name);
    World world(shape);
    PerRank<Outcome> outcomes(world.size());
    world.run([&](Communicator& comm) { outcomes[comm.rank()] = reduce_once(comm, (25 << 20) / sizeof(float)); });
    for (auto& outcome : outcomes.all()) {
      CHECK(outcome.error == "");
      CHECK(is_sum(outcome.data, world.size()));
    }
  }
}

// Values whose sum depends on the order of the additions.
float rough_value(std::uint32_t rank, std::size_t i) {
  return std::sin(static_cast<float>(i * 31 + rank * 17)) * std::pow(10.0F, static_cast<float>((i + rank) % 9) - 4.0F);
}

TEST_CASE("all ranks get the same bits, with scale, lane and norms") {
  for (const auto& shape : all_shapes()) {
    for (const std::size_t count : {std::size_t{100}, std::size_t{12'000}, std::size_t{150'001}}) {
      CAPTURE(shape.name);
      CAPTURE(count);
      World world(shape);
      PerRank<Outcome> outcomes(world.size());
      world.run([&](Communicator& comm) {
        auto& outcome = outcomes[comm.rank()];
        for (std::size_t i = 0; i < count; ++i) outcome.data.push_back(rough_value(comm.rank(), i));
        outcome.lane.assign(37, 0.1F + static_cast<float>(comm.rank()));
        ReduceOptions options{0.3F + static_cast<float>(comm.rank()), outcome.lane, true};
        note(outcome, comm.all_reduce(outcome.data, options, &outcome.stats));
      });
      const auto& first = outcomes[0];
      for (auto& outcome : outcomes.all()) {
        CHECK(outcome.error == "");
        CHECK(std::memcmp(outcome.data.data(), first.data.data(), count * sizeof(float)) == 0);
        CHECK(std::memcmp(outcome.lane.data(), first.lane.data(), outcome.lane.size() * sizeof(float)) == 0);
        CHECK(std::memcmp(&outcome.stats.reduced_square_sum, &first.stats.reduced_square_sum, sizeof(double)) == 0);
      }
    }
  }
}

TEST_CASE("the scale weighs this rank's data but not its lane, and norms are those before and after") {
  for (const auto& shape : all_shapes()) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{64}, std::size_t{100'000}}) {
      CAPTURE(shape.name);
      CAPTURE(count);
      World world(shape);
      PerRank<Outcome> outcomes(world.size());
      world.run([&](Communicator& comm) {
        auto& outcome = outcomes[comm.rank()];
        outcome.data.assign(count, 2.0F);
        outcome.lane = {1.0F, static_cast<float>(comm.rank())};
        const ReduceOptions options{static_cast<float>(comm.rank() + 1), outcome.lane, true};
        note(outcome, comm.all_reduce(outcome.data, options, &outcome.stats));
      });
      const auto n = static_cast<float>(world.size());
      const float sum = n * (n + 1);
      for (auto& outcome : outcomes.all()) {
        CHECK(outcome.error == "");
        CHECK(outcome.data == std::vector<float>(count, sum));
        CHECK(outcome.lane == std::vector<float>{n, n * (n - 1) / 2});
        CHECK(outcome.stats.local_square_sum == doctest::Approx(4.0 * static_cast<double>(count)));
        CHECK(outcome.stats.reduced_square_sum == doctest::Approx(double{sum} * sum * static_cast<double>(count)));
      }
    }
  }
}

TEST_CASE("a broadcast copies the root's bytes to all ranks") {
  for (const auto& shape : all_shapes()) {
    CAPTURE(shape.name);
    World world(shape);
    for (std::uint32_t root = 0; root < world.size(); ++root) {
      PerRank<std::string> errors(world.size());
      world.run(
          [&](Communicator& comm) {
            for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{700'001}}) {
              std::vector<std::byte> data(size, static_cast<std::byte>(comm.rank() + 1));
              auto status = comm.broadcast(data, root);
              if (!status) errors[comm.rank()] = status.error().message;
              if (data != std::vector<std::byte>(size, static_cast<std::byte>(root + 1)))
                errors[comm.rank()] += "bytes";
            }
          },
          root + 1);
      for (auto& error : errors.all()) CHECK(error == "");
    }
  }
}

TEST_CASE("an all-gather leaves every rank's block at every rank") {
  for (const auto& shape : all_shapes()) {
    CAPTURE(shape.name);
    World world(shape);
    PerRank<std::string> errors(world.size());
    world.run([&](Communicator& comm) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{300'007}}) {
        std::vector<std::byte> mine(size, static_cast<std::byte>(comm.rank() + 1));
        std::vector<std::byte> all(size * comm.world_size());
        auto status = comm.all_gather(mine, all);
        if (!status) errors[comm.rank()] += status.error().message;
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (all[i] != static_cast<std::byte>(i / size + 1)) errors[comm.rank()] = "bytes";
        }
      }
    });
    for (auto& error : errors.all()) CHECK(error == "");
  }
}

TEST_CASE("neighbours send to each other, and any ranks of one host") {
  for (const auto& shape : {shm(2), shm(4), tcp(2), tcp(4), Shape{"hosts of one", {1, 1, 1}}}) {
    CAPTURE(shape.name);
    World world(shape);
    PerRank<std::string> errors(world.size());
    world.run([&](Communicator& comm) {
      const auto n = comm.world_size();
      const auto next = (comm.rank() + 1) % n;
      const auto previous = (comm.rank() + n - 1) % n;
      std::vector<std::byte> data(400'003, static_cast<std::byte>(comm.rank()));
      for (const std::size_t size : {std::size_t{0}, std::size_t{9}, data.size()}) {
        std::vector<std::byte> got(size);
        const auto bytes = std::span(data).first(size);
        // Odd ranks receive first, so that no cycle of full buffers can form.
        auto status = comm.rank() % 2 == 0 ? comm.send(bytes, next) : comm.receive(got, previous);
        if (status) status = comm.rank() % 2 == 0 ? comm.receive(got, previous) : comm.send(bytes, next);
        if (!status) errors[comm.rank()] += status.error().message;
        if (got != std::vector<std::byte>(size, static_cast<std::byte>(previous))) errors[comm.rank()] += "bytes";
      }
    });
    for (auto& error : errors.all()) CHECK(error == "");
  }
}

TEST_CASE("two ranks exchange data of different sizes, more than fits in between") {
  Shape clique = tcp(3);
  clique.topology = protocol::Topology::kClique;
  for (const auto& shape : {shm(2), tcp(2), tcp(4), clique, Shape{"two hosts", {2, 1}}}) {
    CAPTURE(shape.name);
    World world(shape);
    PerRank<std::string> errors(world.size());
    const auto bytes_of = [](std::uint32_t rank, std::size_t round) {
      return std::vector<std::byte>(round == 0 ? 0 : 12'000'000 + rank, static_cast<std::byte>(rank + 1));
    };
    world.run([&](Communicator& comm) {
      const std::uint32_t peer = comm.rank() ^ 1;
      for (const std::size_t round : {0, 1, 2}) {
        if (peer >= comm.world_size()) return;
        const auto sent = bytes_of(comm.rank(), round);
        std::vector<std::byte> received(bytes_of(peer, round).size());
        const auto status = comm.exchange(sent, received, peer);
        if (!status) errors[comm.rank()] += status.error().message;
        if (received != bytes_of(peer, round)) errors[comm.rank()] += "bytes";
      }
    });
    for (auto& error : errors.all()) CHECK(error == "");
  }
}

TEST_CASE("an exchange with another size than the peer's, or without a peer, is an error") {
  World world(tcp(4));
  PerRank<Status> statuses(world.size());
  world.run([&](Communicator& comm) {
    const std::vector<std::byte> sent(100);
    std::vector<std::byte> received(comm.rank() == 0 ? 99 : 100);
    const std::uint32_t peers[] = {1, 0, 2, 7};  // rank 2 with itself, rank 3 with a rank that does not exist
    statuses[comm.rank()] = comm.exchange(sent, received, peers[comm.rank()]);
  });
  for (auto& status : statuses.all()) CHECK_FALSE(status);
  CHECK(statuses[0].error().code == ErrorCode::kMismatch);
  for (const std::uint32_t rank : {2U, 3U}) CHECK(statuses[rank].error().code == ErrorCode::kInvalid);
}

TEST_CASE("no rank leaves a barrier before all have entered it") {
  for (const auto& shape : all_shapes()) {
    CAPTURE(shape.name);
    World world(shape);
    std::atomic<int> entered{0};
    std::atomic<int> early{0};
    world.run([&](Communicator& comm) {
      for (int round = 1; round <= 20; ++round) {
        ++entered;
        if (!comm.barrier()) ++early;
        if (entered < round * static_cast<int>(world.size())) ++early;
      }
    });
    CHECK(early == 0);
  }
}

TEST_CASE("many operations of changing kinds and sizes follow each other") {
  for (const auto& shape : all_shapes()) {
    CAPTURE(shape.name);
    World world(shape);
    PerRank<std::string> errors(world.size());
    world.run([&](Communicator& comm) {
      for (std::size_t round = 0; round < 60; ++round) {
        const auto outcome = reduce_once(comm, round * round * 37 % 90'001);
        if (!outcome.error.empty() || !is_sum(outcome.data, comm.world_size()))
          errors[comm.rank()] += outcome.error + "sum ";
        std::array<std::byte, 40> block{static_cast<std::byte>(round)};
        if (!comm.broadcast(block, static_cast<std::uint32_t>(round % comm.world_size())))
          errors[comm.rank()] += "broadcast ";
      }
    });
    for (auto& error : errors.all()) CHECK(error == "");
  }
}

TEST_CASE("traffic is counted where it goes") {
  for (const auto& [shape, over_sockets] : {std::pair{shm(2), false}, std::pair{tcp(2), true}}) {
    CAPTURE(shape.name);
    World world(shape);
    PerRank<Traffic> traffic(world.size());
    world.run([&](Communicator& comm) {
      reduce_once(comm, 50'000);
      traffic[comm.rank()] = comm.traffic();
    });
    CHECK((traffic[0].bytes_sent >= 200'000) == over_sockets);
    CHECK((traffic[0].bytes_received >= 200'000) == over_sockets);
    CHECK((traffic[0].bytes_shared >= 200'000) == !over_sockets);
  }
}

TEST_CASE("each rank knows what it exchanged with each peer and how far away that is") {
  Shape clique = tcp(3);
  clique.topology = protocol::Topology::kClique;
  World world(clique);
  PerRank<std::vector<PeerFigures>> peers(world.size());
  world.run([&](Communicator& comm) {
    reduce_once(comm, 90'000);
    peers[comm.rank()] = comm.peers();
  });
  for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
    REQUIRE(peers[rank].size() == 2);
    for (const auto& peer : peers[rank]) {
      CHECK(peer.rank != rank);
      // A third of the data goes to each other rank, and a third of the sums comes back: twice both ways.
      CHECK(peer.bytes_sent >= 2 * 30'000 * sizeof(float));
      // Building over NCCL has already sent a unique id.
      if (!on_devices()) CHECK(peer.bytes_sent == peer.bytes_received);
      CHECK(peer.round_trip_us > 0);
    }
  }
  World one_host(shm(2));
  one_host.run([&](Communicator& comm) { peers[comm.rank()] = comm.peers(); });
  CHECK(peers[0].empty());
}

}  // namespace
}  // namespace elastictrain::comm::testing
