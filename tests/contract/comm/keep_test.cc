// The input that an all-reduce keeps for a repetition in another generation, and aborts at every stage.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>

#include <barrier>
#include <thread>

#include "tests/contract/comm/special_input.h"
#include "tests/contract/comm/world.h"

namespace elastictrain::comm::testing {
namespace {

using std::chrono::microseconds;

constexpr float kUntouched = -12345.0F;

std::vector<Shape> shapes_that_fail() {
  return with_tree_shapes(
      {shm(2), shm(3), tcp(2), tcp(3), tcp(4), {"2 hosts with 2 ranks", {2, 2}}, {"1, 2 and 1", {1, 2, 1}}});
}

// Runs `body` once all ranks have their communicator: one that is aborted earlier would fail the others' build.
void run_together(World& world, const World::Body& body) {
  std::barrier built(static_cast<std::ptrdiff_t>(world.size()));
  world.run([&](Communicator& comm) {
    built.arrive_and_wait();
    body(comm);
  });
}

// Counts shared by forked processes.
class SharedCounter {
 public:
  SharedCounter()
      : value_(static_cast<std::atomic<int>*>(
            ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedCounter() { ::munmap(value_, sizeof(std::atomic<int>)); }
  void add() { ++*value_; }
  void await(int min) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (*value_ < min && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }

 private:
  std::atomic<int>* value_;
};

TEST_CASE("an all-reduce keeps its input, unscaled and bit for bit, and the sum is what it is without") {
  for (const auto& shape : all_shapes()) {
    for (const std::size_t count : {0, 1, 7, 1024, 5000, 20'000, (1 << 18) + 3}) {
      CAPTURE(shape.name);
      CAPTURE(count);
      World world(shape);
      std::vector<std::string> errors(world.size());
      world.run([&](Communicator& comm) {
        const auto input = input_of(comm.rank(), count);
        std::vector<float> lane[2] = {{1.0F, 2.0F, 3.0F}, {1.0F, 2.0F, 3.0F}};
        auto plain = input;
        auto data = input;
        // Neither the length nor the address is aligned.
        std::vector<float> room(count + 2, kUntouched);
        const auto keep = std::span(room).subspan(1, count);
        auto status = comm.all_reduce(plain, {.scale = 0.3F, .lane = lane[0]});
        if (status) status = comm.all_reduce(data, {.scale = 0.3F, .lane = lane[1], .want_norms = true, .keep = keep});
        auto& error = errors[comm.rank()];
        if (!status) error = status.error().message;
        if (!same_bits({keep.begin(), keep.end()}, input)) error += " kept something else";
        if (room.front() != kUntouched || room.back() != kUntouched) error += " wrote beyond";
        if (!same_bits(data, plain) || lane[0] != lane[1]) error += " another sum";
      });
      for (const auto& error : errors) CHECK(error == "");
    }
  }
}

// All-reduces until an error; every call, also the failing one and one after it, must keep its input.
std::string reduce_and_keep_until_error(Communicator& comm, std::size_t count) {
  for (int call = 0; call < 100'000; ++call) {
    const auto input = input_of(comm.rank() + static_cast<std::uint32_t>(call), count);
    auto data = input;
    std::vector<float> keep(count, kUntouched);
    const auto status = comm.all_reduce(data, {.scale = 0.5F, .keep = keep});
    if (!same_bits(keep, input)) return "call " + std::to_string(call) + " kept something else";
    if (status) continue;
    if (status.error().code == ErrorCode::kTimeout) return "noticed only by the time-out";
    std::vector<float> again(count, kUntouched);
    if (comm.all_reduce(data, {.keep = again})) return "a broken communicator worked";
    return same_bits(again, data) ? "" : "a refused call kept something else";
  }
  return "never failed";
}

TEST_CASE("the input is kept whole by an all-reduce that is aborted at any stage") {
  for (const auto& shape : shapes_that_fail()) {
    for (const std::size_t count : {std::size_t{900}, std::size_t{30'000}, std::size_t{1'200'007}}) {
      for (int delay_us = 0; delay_us < 12'000; delay_us = delay_us * 2 + 50) {
        CAPTURE(shape.name);
        CAPTURE(count);
        CAPTURE(delay_us);
        World world(shape);
        std::vector<std::string> errors(world.size());
        run_together(world, [&](Communicator& comm) {
          std::thread aborter;
          if (comm.rank() == 1) {
            aborter = std::thread([&] {
              std::this_thread::sleep_for(microseconds(delay_us));
              comm.abort();
            });
          }
          errors[comm.rank()] = reduce_and_keep_until_error(comm, count);
          if (aborter.joinable()) aborter.join();
        });
        for (const auto& error : errors) CHECK(error == "");
      }
    }
  }
}

TEST_CASE("the input is kept whole when a peer passes another size") {
  for (const auto& shape : shapes_that_fail()) {
    CAPTURE(shape.name);
    World world(shape);
    std::vector<std::string> errors(world.size());
    run_together(world, [&](Communicator& comm) {
      errors[comm.rank()] = reduce_and_keep_until_error(comm, comm.rank() == 1 ? 900'000 : 500'000);
    });
    for (const auto& error : errors) CHECK(error == "");
  }
}

TEST_CASE("what survivors of a kill have kept can be summed again in the next generation") {
  for (const auto& shape : {shm(3), tcp(3), Shape{"1 and 2", {1, 2}}}) {
    for (int delay_us = 0; delay_us < 8'000; delay_us = delay_us * 2 + 200) {
      CAPTURE(shape.name);
      CAPTURE(delay_us);
      constexpr std::size_t kCount = 1'000'003;
      World world(shape);
      Shape of_survivors = shape;
      of_survivors.ranks_per_host.back() -= 1;
      World next(of_survivors);
      SharedCounter steps;
      std::vector<pid_t> pids;
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        pids.push_back(fork_rank([&] {
          const auto comm = world.build(rank);
          std::vector<float> data(kCount);
          std::vector<float> keep(kCount);
          float value = 1.0F;
          for (Status status; status; value += 1.0F) {
            data.assign(kCount, value * static_cast<float>(rank + 1));
            status = comm->all_reduce(data, {.scale = 0.25F, .keep = keep});
            steps.add();
            if (!status && status.error().code == ErrorCode::kTimeout) return 2;
          }
          // The survivors may be one all-reduce apart. Each has kept its own input.
          const float mine = (value - 1.0F) * static_cast<float>(rank + 1);
          if (keep != std::vector<float>(kCount, mine)) return 3;
          std::array<float, 1> whole{mine};
          const auto again = next.build(rank, 2);
          if (!again->all_reduce(whole) || !again->all_reduce(keep)) return 4;
          return keep == std::vector<float>(kCount, whole[0]) ? 0 : 5;
        }));
      }
      steps.await(9);
      std::this_thread::sleep_for(microseconds(delay_us));
      ::kill(pids[2], SIGKILL);
      CHECK(join_rank(pids[2]) == -SIGKILL);
      CHECK(join_rank(pids[0]) == 0);
      CHECK(join_rank(pids[1]) == 0);
    }
  }
}

TEST_CASE("every kind of call ends when it is aborted, whatever it is doing") {
  for (const auto& shape : shapes_that_fail()) {
    for (int delay_us = 0; delay_us < 6'000; delay_us = delay_us * 2 + 100) {
      CAPTURE(shape.name);
      CAPTURE(delay_us);
      World world(shape);
      std::vector<ErrorCode> codes(world.size());
      run_together(world, [&](Communicator& comm) {
        std::thread aborter([&] {
          std::this_thread::sleep_for(microseconds(delay_us));
          comm.abort();
        });
        std::vector<float> gradient(300'000);
        std::vector<std::byte> block(100'000);
        std::vector<std::byte> blocks(block.size() * comm.world_size());
        Status status;
        for (std::uint32_t call = 0; status; ++call) {
          if (call % 4 == 0) status = comm.barrier();
          if (call % 4 == 1) status = comm.all_reduce(gradient);
          if (call % 4 == 2) status = comm.broadcast(blocks, call % comm.world_size());
          if (call % 4 == 3) status = comm.all_gather(block, blocks);
        }
        codes[comm.rank()] = status.error().code;
        aborter.join();
      });
      for (const auto code : codes) CHECK((code == ErrorCode::kAborted || code == ErrorCode::kPeerLost));
    }
  }
}

TEST_CASE("room for half of the input is a mistake") {
  World world(shm(1));
  const auto comm = world.build(0);
  std::vector<float> data(10);
  std::vector<float> keep(5);
  CHECK(comm->all_reduce(data, {.keep = keep}).error().code == ErrorCode::kInvalid);
}

}  // namespace
}  // namespace elastictrain::comm::testing
