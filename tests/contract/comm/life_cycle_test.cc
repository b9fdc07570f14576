// The life cycle of a communicator: errors end it, abort ends a blocked call, and the next one is built while it runs.
#include <doctest/doctest.h>

#include <thread>

#include "tests/contract/comm/world.h"

namespace elastictrain::comm::testing {
namespace {

using std::chrono::steady_clock;

std::vector<Shape> shapes_of_several() {
  return with_tree_shapes(
      {shm(2), shm(4), tcp(2), tcp(3), tcp(4), {"2 hosts with 2 ranks", {2, 2}}, {"5 hosts", {1, 1, 1, 1, 1}}});
}

// Returns the statuses of all ranks after `body`.
std::vector<Status> statuses(World& world, const std::function<Status(Communicator&)>& body) {
  std::vector<Status> all(world.size());
  world.run([&](Communicator& comm) { all[comm.rank()] = body(comm); });
  return all;
}

TEST_CASE("ranks that pass different sizes get an error, all of them, and the communicator stays broken") {
  for (const auto& shape : shapes_of_several()) {
    for (const auto& [odd, even] : {std::pair{100, 101}, std::pair{100, 500'000}, std::pair{900'000, 500'000}}) {
      CAPTURE(shape.name);
      CAPTURE(odd);
      CAPTURE(even);
      World world(shape);
      std::atomic<int> usable_after{0};
      const auto all = statuses(world, [&, odd = odd, even = even](Communicator& comm) {
        std::vector<float> data(static_cast<std::size_t>(comm.rank() == 1 ? odd : even));
        auto status = comm.all_reduce(data);
        if (comm.barrier()) ++usable_after;
        return status;
      });
      for (const auto& status : all) CHECK_FALSE(status.ok());
      CHECK(usable_after == 0);
    }
  }
}

TEST_CASE("ranks that sum values of different types get an error") {
  for (const auto& shape : shapes_of_several()) {
    for (const std::size_t count : {100, 500'000}) {
      CAPTURE(shape.name);
      World world(shape);
      const auto all = statuses(world, [&](Communicator& comm) {
        std::vector<float> data(count);
        return comm.all_reduce(data, {.element = comm.rank() == 1 ? Element::kFloat16 : Element::kFloat32});
      });
      bool is_named = false;
      for (const auto& status : all) {
        REQUIRE_FALSE(status.ok());
        is_named = is_named || status.error().message.find("a sum of float16") != std::string::npos;
      }
      CHECK(is_named);
    }
  }
}

TEST_CASE("ranks that call different operations get an error") {
  for (const auto& shape : shapes_of_several()) {
    CAPTURE(shape.name);
    World world(shape);
    const auto all = statuses(world, [&](Communicator& comm) {
      std::vector<float> data(5000);
      if (comm.rank() == 0) return comm.broadcast(std::as_writable_bytes(std::span(data)), 0);
      return comm.all_reduce(data);
    });
    for (const auto& status : all) CHECK_FALSE(status.ok());
  }
}

TEST_CASE("abort from another thread ends a blocked call within milliseconds, at all ranks") {
  for (const auto& shape : shapes_of_several()) {
    CAPTURE(shape.name);
    World world(shape);
    std::atomic<int> blocked{0};
    std::vector<steady_clock::duration> took(world.size());
    steady_clock::time_point aborted_at;
    const auto all = statuses(world, [&](Communicator& comm) {
      if (comm.rank() != 0) {
        ++blocked;
        auto status = comm.barrier();
        took[comm.rank()] = steady_clock::now() - aborted_at;
        return status;
      }
      // Rank 0 does not take part. It aborts once the others have been blocked in their call for a while.
      while (blocked + 1 < static_cast<int>(world.size())) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      aborted_at = steady_clock::now();
      comm.abort();
      comm.abort();
      return comm.barrier();
    });
    CHECK(all[0].error().code == ErrorCode::kAborted);
    for (std::size_t rank = 1; rank < world.size(); ++rank) {
      CHECK_FALSE(all[rank].ok());
      CHECK(took[rank] < std::chrono::seconds(2));
    }
  }
}

TEST_CASE("the aborting thread's own blocked call reports the abort") {
  for (const auto& shape : shapes_of_several()) {
    CAPTURE(shape.name);
    World world(shape);
    const auto comms = world.build_all();
    Status status;
    std::vector<float> data(3'000'000);
    std::thread blocked([&] { status = comms[0]->all_reduce(data); });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    comms[0]->abort();
    blocked.join();
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kAborted);
  }
}

TEST_CASE("a call that a peer does not join ends at the operation timeout") {
  for (const auto& shape : {shm(2), tcp(2), tcp(4)}) {
    CAPTURE(shape.name);
    World world(shape);
    std::vector<Status> all(world.size());
    std::vector<std::thread> ranks;
    std::atomic<bool> over{false};
    for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        const auto comm = world.build(rank, 1, std::chrono::milliseconds(60));
        if (rank == 0) {
          while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        } else {
          all[rank] = comm->barrier();
          over = true;
        }
      });
    }
    for (auto& rank : ranks) rank.join();
    bool timed_out = false;
    for (std::size_t rank = 1; rank < world.size(); ++rank) {
      REQUIRE_FALSE(all[rank].ok());
      timed_out |= all[rank].error().code == ErrorCode::kTimeout;
    }
    CHECK(timed_out);
  }
}

TEST_CASE("a rank that closes right after its last all-reduce leaves its bytes to slower peers") {
  for (const auto& shape : shapes_of_several()) {
    for (const std::size_t count : {std::size_t{10}, std::size_t{100'000}, std::size_t{2'000'000}}) {
      CAPTURE(shape.name);
      CAPTURE(count);
      World world(shape);
      for (Generation generation = 1; generation <= 5; ++generation) {
        std::atomic<int> wrong{0};
        world.run(
            [&](Communicator& comm) {
              std::vector<float> data(count, 1.0F);
              if (!comm.all_reduce(data) || data.front() != data.back() || data[0] != float(world.size())) ++wrong;
            },
            generation);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("the next communicator is built while the old one works, and both give right sums") {
  for (const auto& shape : shapes_of_several()) {
    CAPTURE(shape.name);
    World world(shape);
    std::atomic<int> wrong{0};
    world.run([&](Communicator& comm) {
      std::unique_ptr<Communicator> next;
      std::atomic<bool> built{false};
      std::thread builder([&] {
        next = world.build(comm.rank(), 2);
        built = true;
      });
      // The old communicator works until all ranks have built the new one. The lane carries that information, as in a
      // swap.
      for (bool all_built = false; !all_built;) {
        std::vector<float> data(20'000, 1.0F);
        std::array<float, 1> lane{built ? 1.0F : 0.0F};
        if (!comm.all_reduce(data, {1.0F, lane}) || data.back() != float(world.size())) ++wrong;
        all_built = lane[0] == static_cast<float>(world.size());
      }
      builder.join();
      std::vector<float> data(20'000, 2.0F);
      if (!next->all_reduce(data) || data.back() != 2 * float(world.size()) || next->generation() != 2) ++wrong;
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("a communicator of a world of one scales and continues") {
  World world({"alone", {1}});
  const auto comm = world.build(0);
  std::vector<float> data{1, 2};
  CHECK(comm->all_reduce(data, {0.5F}).ok());
  CHECK(data == std::vector<float>{0.5F, 1.0F});
  CHECK(comm->barrier().ok());
  comm->abort();
  CHECK(comm->barrier().error().code == ErrorCode::kAborted);
}

TEST_CASE("calls that make no sense are refused and break nothing but the communicator") {
  World world({"alone", {1}});
  const auto comm = world.build(0);
  std::array<std::byte, 4> bytes{};
  CHECK(comm->send(bytes, 0).error().code == ErrorCode::kInvalid);
  CHECK(comm->receive(bytes, 7).error().code == ErrorCode::kInvalid);
  CHECK(comm->broadcast(bytes, 1).error().code == ErrorCode::kInvalid);
}

}  // namespace
}  // namespace elastictrain::comm::testing
