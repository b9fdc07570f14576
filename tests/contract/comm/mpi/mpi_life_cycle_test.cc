// The life cycle at the ranks of a real MPI launch: errors end a communicator at all ranks, abort ends a blocked call,
// the next communicator is built while the old one runs, and no resources leak.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/contract/comm/mpi/pool.h"
#include "tests/contract/comm/special_input.h"

namespace elastictrain::comm::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_CASE("ranks that pass different sizes get an error, all of them, and the communicator stays broken") {
  for (const auto& [odd, even] : {std::pair{100, 101}, std::pair{100, 500'000}, std::pair{900'000, 500'000}}) {
    Pool::here().run_at_all_sizes(
        [odd = odd, even = even](Communicator& comm) {
          std::vector<float> data(static_cast<std::size_t>(comm.rank() == 1 ? odd : even));
          const auto status = comm.all_reduce(data, {}, nullptr);
          CHECK_FALSE(status.ok());
          CHECK_FALSE(comm.barrier().ok());
        },
        2);
  }
}

TEST_CASE("ranks that call different operations get an error") {
  Pool::here().run_at_all_sizes(
      [](Communicator& comm) {
        std::vector<float> data(5000);
        if (comm.rank() == 0) {
          const auto first = comm.broadcast(std::as_writable_bytes(std::span(data)), 0);
          const bool failed = !first.ok() || !comm.barrier().ok();
          CHECK(failed);
        } else {
          CHECK_FALSE(comm.all_reduce(data, {}, nullptr).ok());
        }
      },
      2);
}

TEST_CASE("abort from another thread ends a blocked call, at all ranks") {
  Pool::here().run_at_all_sizes(
      [](Communicator& comm) {
        std::thread aborter;
        if (comm.rank() == 0) {
          aborter = std::thread([&] {
            std::this_thread::sleep_for(milliseconds(20));
            comm.abort();
            comm.abort();
          });
        }
        // Rank 0 is blocked in another call than the rest, which no other rank joins.
        std::array<std::byte, 8> bytes{};
        const auto status = comm.rank() == 0 ? comm.receive(bytes, 1) : comm.barrier();
        if (aborter.joinable()) aborter.join();
        REQUIRE_FALSE(status.ok());
        CHECK(status.error().code == (comm.rank() == 0 ? ErrorCode::kAborted : ErrorCode::kPeerLost));
        CHECK_FALSE(comm.barrier().ok());
      },
      2);
}

TEST_CASE("a call that a peer does not join ends at the operation timeout") {
  Pool::here().run(
      2, Placement::kApart,
      [](Communicator& comm) {
        if (comm.rank() == 0) return;
        const auto status = comm.barrier();
        REQUIRE_FALSE(status.ok());
        CHECK(status.error().code == ErrorCode::kTimeout);
      },
      milliseconds(60));
}

TEST_CASE("a rank that closes right after its last all-reduce leaves its bytes to slower peers") {
  for (const std::size_t count : {std::size_t{10}, std::size_t{100'000}, std::size_t{2'000'000}}) {
    for (int generation = 0; generation < 5; ++generation) {
      Pool::here().run_at_all_sizes(
          [count](Communicator& comm) {
            std::vector<float> data(count, 1.0F);
            CHECK(comm.all_reduce(data, {}, nullptr).ok());
            CHECK(data.front() == static_cast<float>(comm.world_size()));
            CHECK(data.back() == data.front());
          },
          2);
    }
  }
}

void build_beside(Placement placement) {
  Pool& pool = Pool::here();
  const auto everyone = first_ranks(pool.size());
  const auto old = pool.build(everyone, placement);
  std::unique_ptr<Communicator> next;
  std::atomic<bool> built{false};
  std::thread builder([&] {
    next = pool.build(everyone, placement);
    built = true;
  });
  for (bool all_built = false; !all_built;) {
    std::vector<float> data(20'000, 1.0F);
    std::array<float, 1> lane{built ? 1.0F : 0.0F};
    REQUIRE(old->all_reduce(data, {1.0F, lane}, nullptr).ok());
    CHECK(data.back() == static_cast<float>(pool.size()));
    all_built = lane[0] == static_cast<float>(pool.size());
  }
  builder.join();
  std::vector<float> data(20'000, 2.0F);
  CHECK(next->all_reduce(data, {}, nullptr).ok());
  CHECK(data.back() == 2 * static_cast<float>(pool.size()));
  CHECK(next->generation() == old->generation() + 1);
}

TEST_CASE("the next communicator is built while the old one works, and both give right sums") {
  for (const auto placement : {Placement::kApart, Placement::kTwoMachines, Placement::kOneMachine}) {
    build_beside(placement);
  }
}

TEST_CASE("calls that make no sense are refused") {
  Pool::here().run(1, Placement::kApart, [](Communicator& comm) {
    std::array<std::byte, 4> bytes{};
    CHECK(comm.send(bytes, 0).error().code == ErrorCode::kInvalid);
    CHECK(comm.receive(bytes, 7).error().code == ErrorCode::kInvalid);
    CHECK(comm.broadcast(bytes, 1).error().code == ErrorCode::kInvalid);
    std::vector<float> data(10);
    std::vector<float> keep(5);
    CHECK(comm.all_reduce(data, {.keep = keep}, nullptr).error().code == ErrorCode::kInvalid);
  });
}

TEST_CASE("the input is kept, whole and bit for bit, by all-reduces up to the one that is aborted at any stage") {
  for (const std::size_t count : {std::size_t{900}, std::size_t{30'000}, std::size_t{1'200'007}}) {
    for (int delay_us = 0; delay_us < 5'000; delay_us = delay_us * 4 + 50) {
      Pool::here().run_at_all_sizes(
          [&](Communicator& comm) {
            // Makes the ranks begin about together. The fastest may abort before the slowest has left the barrier.
            (void)comm.barrier();
            std::thread aborter;
            if (comm.rank() == 1) {
              aborter = std::thread([&] {
                std::this_thread::sleep_for(microseconds(delay_us));
                comm.abort();
              });
            }
            for (Status status; status;) {
              const auto input = input_of(comm.rank(), count);
              auto data = input;
              std::vector<float> keep(count, -1.0F);
              status = comm.all_reduce(data, {.scale = 0.5F, .keep = keep}, nullptr);
              CHECK(same_bits(keep, input));
              if (!status) CHECK(status.error().code != ErrorCode::kTimeout);
            }
            if (aborter.joinable()) aborter.join();
          },
          2);
    }
  }
}

std::size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::size_t resident_kib() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

void one_generation(Pool& pool, int number) {
  const auto comm = pool.build(first_ranks(pool.size()), number % 2 == 0 ? Placement::kApart : Placement::kTwoMachines);
  std::vector<float> data(30'000, 1.0F);
  REQUIRE(comm->all_reduce(data, {}, nullptr).ok());
  CHECK(data[0] == static_cast<float>(pool.size()));
}

TEST_CASE("a thousand generations leave no descriptor, thread or memory behind") {
  Pool& pool = Pool::here();
  for (int i = 0; i < 50; ++i) one_generation(pool, i);
  const auto descriptors = entries("/proc/self/fd");
  const auto threads = entries("/proc/self/task");
  const auto resident = resident_kib();
  for (int i = 0; i < 1000; ++i) one_generation(pool, i);
  CHECK(entries("/proc/self/fd") == descriptors);
  CHECK(entries("/proc/self/task") == threads);
  CHECK(resident_kib() < resident + 16 * 1024);
}

}  // namespace
}  // namespace elastictrain::comm::testing
