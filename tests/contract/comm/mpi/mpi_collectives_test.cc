// The contract of communicator.h at the ranks of a real MPI launch: the contents of the buffers after each call.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "tests/contract/comm/mpi/pool.h"

namespace elastictrain::comm::testing {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 7, 1024, 5000, 20'000, (1 << 18) + 3, 3'000'001};

float value_of(std::uint32_t rank, std::size_t i) {
  return static_cast<float>((i * 7 + rank * 13) % 101) - 50.0F;
}

bool sums(Communicator& comm, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = value_of(comm.rank(), i);
  const auto status = comm.all_reduce(data, {}, nullptr);
  if (!status) MESSAGE(status.error().message);
  bool right = status.ok();
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (std::uint32_t rank = 0; rank < comm.world_size(); ++rank) sum += value_of(rank, i);
    right = right && data[i] == sum;
  }
  return right;
}

// Checks that all ranks have the same bytes; every rank gets the result.
template <class T>
bool equal_everywhere(Communicator& comm, const std::vector<T>& mine) {
  const auto bytes = std::as_bytes(std::span(mine));
  std::vector<std::byte> all(bytes.size() * comm.world_size());
  if (!comm.all_gather(bytes, all)) return false;
  for (std::uint32_t rank = 0; rank < comm.world_size(); ++rank) {
    if (!bytes.empty() && std::memcmp(all.data() + rank * bytes.size(), bytes.data(), bytes.size()) != 0) return false;
  }
  return true;
}

TEST_CASE("an all-reduce leaves the sum of all inputs at every rank, for every size") {
  Pool::here().run_at_all_sizes([](Communicator& comm) {
    for (const auto count : kSizes) {
      CAPTURE(comm.world_size());
      CAPTURE(count);
      CHECK(sums(comm, count));
    }
  });
}

// Values whose sum depends on the order of the additions.
float rough_value(std::uint32_t rank, std::size_t i) {
  return std::sin(static_cast<float>(i * 31 + rank * 17)) * std::pow(10.0F, static_cast<float>((i + rank) % 9) - 4.0F);
}

TEST_CASE("all ranks get the same bits, with scale, lane and norms") {
  Pool::here().run_at_all_sizes([](Communicator& comm) {
    for (const std::size_t count : {std::size_t{100}, std::size_t{12'000}, std::size_t{450'001}}) {
      std::vector<float> data(count);
      for (std::size_t i = 0; i < count; ++i) data[i] = rough_value(comm.rank(), i);
      std::vector<float> lane(37, 0.1F + static_cast<float>(comm.rank()));
      ReduceStats stats;
      CHECK(comm.all_reduce(data, {0.3F + static_cast<float>(comm.rank()), lane, true}, &stats).ok());
      CHECK(equal_everywhere(comm, data));
      CHECK(equal_everywhere(comm, lane));
      CHECK(equal_everywhere(comm, std::vector<double>{stats.reduced_square_sum}));
    }
  });
}

TEST_CASE("the scale weighs this rank's data but not its lane, and norms are those before and after") {
  Pool::here().run_at_all_sizes([](Communicator& comm) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{64}, std::size_t{500'000}}) {
      std::vector<float> data(count, 2.0F);
      std::vector<float> lane{1.0F, static_cast<float>(comm.rank())};
      ReduceStats stats;
      CHECK(comm.all_reduce(data, {static_cast<float>(comm.rank() + 1), lane, true}, &stats).ok());
      const auto n = static_cast<float>(comm.world_size());
      CHECK(data == std::vector<float>(count, n * (n + 1)));
      CHECK(lane == std::vector<float>{n, n * (n - 1) / 2});
      CHECK(stats.local_square_sum == doctest::Approx(4.0 * static_cast<double>(count)));
      CHECK(stats.reduced_square_sum ==
            doctest::Approx(double{n} * (n + 1) * double{n} * (n + 1) * static_cast<double>(count)));
    }
  });
}

TEST_CASE("a broadcast copies the root's bytes to all ranks") {
  Pool::here().run_at_all_sizes([](Communicator& comm) {
    for (std::uint32_t root = 0; root < comm.world_size(); ++root) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{1'700'001}}) {
        std::vector<std::byte> data(size, static_cast<std::byte>(comm.rank() + 1));
        CHECK(comm.broadcast(data, root).ok());
        CHECK(data == std::vector<std::byte>(size, static_cast<std::byte>(root + 1)));
      }
    }
  });
}

TEST_CASE("an all-gather leaves every rank's block at every rank") {
  Pool::here().run_at_all_sizes([](Communicator& comm) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{900'007}}) {
      const std::vector<std::byte> mine(size, static_cast<std::byte>(comm.rank() + 1));
      std::vector<std::byte> all(size * comm.world_size());
      CHECK(comm.all_gather(mine, all).ok());
      bool right = true;
      for (std::size_t i = 0; i < all.size(); ++i) right = right && all[i] == static_cast<std::byte>(i / size + 1);
      CHECK(right);
    }
  });
}

TEST_CASE("any two ranks send to each other") {
  Pool::here().run_at_all_sizes(
      [](Communicator& comm) {
        const auto n = comm.world_size();
        for (std::uint32_t distance = 1; distance < n; ++distance) {
          const auto to = (comm.rank() + distance) % n;
          const auto from = (comm.rank() + n - distance) % n;
          CHECK(comm.reaches(to));
          for (const std::size_t size : {std::size_t{0}, std::size_t{9}, std::size_t{900'003}}) {
            std::vector<std::byte> mine(size, static_cast<std::byte>(comm.rank()));
            std::vector<std::byte> got(size);
            // The lowest rank of each cycle receives last, so that senders cannot wait for each other in a cycle.
            Status sent;
            Status received;
            if (comm.rank() < from) {
              sent = comm.send(mine, to);
              received = comm.receive(got, from);
            } else {
              received = comm.receive(got, from);
              sent = comm.send(mine, to);
            }
            CHECK(sent.ok());
            CHECK(received.ok());
            CHECK(got == std::vector<std::byte>(size, static_cast<std::byte>(from)));
          }
        }
      },
      2);
}

TEST_CASE("no rank leaves a barrier before all have entered it") {
  using Clock = std::chrono::steady_clock;  // one for all processes of a machine
  Pool::here().run_at_all_sizes([](Communicator& comm) {
    for (std::uint32_t late = 0; late < comm.world_size(); ++late) {
      if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      const std::array<Clock::rep, 1> entered{Clock::now().time_since_epoch().count()};
      CHECK(comm.barrier().ok());
      const auto left = Clock::now().time_since_epoch().count();
      std::vector<Clock::rep> all(comm.world_size());
      CHECK(comm.all_gather(std::as_bytes(std::span(entered)), std::as_writable_bytes(std::span(all))).ok());
      for (const auto other : all) CHECK(other <= left);
    }
  });
}

TEST_CASE("many operations of changing kinds and sizes follow each other") {
  Pool::here().run_at_all_sizes([](Communicator& comm) {
    for (std::size_t round = 0; round < 60; ++round) {
      CHECK(sums(comm, round * round * 37 % 90'001));
      std::array<std::byte, 40> block{static_cast<std::byte>(round)};
      CHECK(comm.broadcast(block, static_cast<std::uint32_t>(round % comm.world_size())).ok());
    }
  });
}

TEST_CASE("traffic is counted for each peer") {
  Pool::here().run(2, Placement::kApart, [](Communicator& comm) {
    CHECK(sums(comm, 100'000));
    CHECK(comm.traffic().bytes_sent >= 400'000);
    REQUIRE(comm.peers().size() == 1);
    CHECK(comm.peers()[0].rank == 1 - comm.rank());
    CHECK(comm.peers()[0].bytes_sent == comm.peers()[0].bytes_received);
  });
}

}  // namespace
}  // namespace elastictrain::comm::testing
