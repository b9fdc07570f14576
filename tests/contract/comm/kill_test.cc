// Processes that are killed or stopped in the middle of an all-reduce.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "tests/contract/comm/world.h"
#include "tests/slowdown.h"

namespace elastictrain::comm::testing {
namespace {

using std::chrono::steady_clock;

std::vector<Shape> shapes() {
  return with_tree_shapes(
      {shm(2), shm(4), tcp(2), tcp(4), tcp(5), {"2 hosts with 2 ranks", {2, 2}}, {"1, 2 and 1", {1, 2, 1}}});
}

// Results of the forked ranks for the test.
struct Board {
  std::atomic<int> steps[8];
  std::atomic<std::int64_t> noticed_us[8];
};

class SharedBoard {
 public:
  SharedBoard()
      : board_(static_cast<Board*>(
            ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedBoard() { ::munmap(board_, sizeof(Board)); }
  Board* operator->() { return board_; }

 private:
  Board* board_;
};

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now().time_since_epoch()).count();
}

constexpr int kNoticed = 17;
constexpr int kEndless = 18;

// All-reduces until an error. Exit status kNoticed: the error came and all later calls failed too.
int reduce_until_error(World& world, std::uint32_t rank, SharedBoard& board, std::size_t count) {
  const auto comm = world.build(rank, 1, std::chrono::seconds(15));
  std::vector<float> data(count, 1.0F);
  for (int step = 1; step < 1'000'000; ++step) {
    const auto status = comm->all_reduce(data);
    if (!status) {
      board->noticed_us[rank] = now_us();
      return comm->barrier() || status.error().code == ErrorCode::kTimeout ? kEndless : kNoticed;
    }
    board->steps[rank] = step;
  }
  return kEndless;
}

std::vector<pid_t> fork_all(World& world, SharedBoard& board, std::size_t count) {
  std::vector<pid_t> pids;
  for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
    pids.push_back(fork_rank([&] { return reduce_until_error(world, rank, board, count); }));
  }
  return pids;
}

void await_step(SharedBoard& board, std::uint32_t rank, int step) {
  const auto until = steady_clock::now() + std::chrono::seconds(20);
  while (board->steps[rank] < step && steady_clock::now() < until) std::this_thread::yield();
}

TEST_CASE("when a rank is killed in an all-reduce every survivor gets an error at once") {
  for (const auto& shape : shapes()) {
    for (const std::size_t count : {std::size_t{500}, std::size_t{1'000'000}}) {
      for (std::uint32_t victim = 0; victim < 2; ++victim) {
        CAPTURE(shape.name);
        CAPTURE(count);
        CAPTURE(victim);
        World world(shape);
        SharedBoard board;
        auto pids = fork_all(world, board, count);
        await_step(board, victim, 5);
        ::kill(pids[victim], SIGKILL);
        const auto killed_us = now_us();
        CHECK(join_rank(pids[victim]) == -SIGKILL);
        for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
          if (rank == victim) continue;
          CHECK(join_rank(pids[rank]) == kNoticed);
          CHECK(board->noticed_us[rank] - killed_us < elastictrain::testing::kSlowdown * 2'000'000);
        }
      }
    }
  }
}

// One rank is a process, which waits for the others.
struct WithOneProcess {
  static constexpr std::uint32_t kVictim = 1;

  explicit WithOneProcess(const Shape& shape) : world(shape) {
    pid = fork_rank([this] { return reduce_until_error(world, kVictim, board, 100'000); });
  }

  World world;
  SharedBoard board;
  pid_t pid = 0;
};

TEST_CASE("when a rank is stopped the others can be aborted from outside") {
  // All are forked before there are threads here: the C library's locks may be held while one begins or ends.
  std::vector<std::unique_ptr<WithOneProcess>> scenes;
  for (const auto& shape : {shm(3), tcp(3), Shape{"2 hosts with 2 ranks", {2, 2}}}) {
    scenes.push_back(std::make_unique<WithOneProcess>(shape));
  }
  for (const auto& scene : scenes) {
    CAPTURE(scene->world.shape().name);
    auto& [world, board, pid] = *scene;
    const std::uint32_t victim = WithOneProcess::kVictim;
    std::atomic<int> aborted{0};
    std::vector<std::unique_ptr<Communicator>> comms(world.size());
    std::vector<std::atomic<Communicator*>> built(world.size());
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
      if (rank == victim) continue;
      ranks.emplace_back([&, rank] {
        comms[rank] = world.build(rank, 1, std::chrono::seconds(15));
        built[rank] = comms[rank].get();
        std::vector<float> data(100'000);
        Status status;
        for (int step = 1; status; ++step) {
          status = comms[rank]->all_reduce(data);
          board->steps[rank] = step;
        }
        if (status.error().code == ErrorCode::kAborted || status.error().code == ErrorCode::kPeerLost) ++aborted;
      });
    }
    await_step(board, 0, 5);
    ::kill(pid, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    for (auto& communicator : built) {
      if (communicator) communicator.load()->abort();
    }
    for (auto& rank : ranks) rank.join();
    CHECK(aborted == static_cast<int>(world.size()) - 1);
    ::kill(pid, SIGKILL);
    CHECK(join_rank(pid) == -SIGKILL);
  }
}

}  // namespace
}  // namespace elastictrain::comm::testing
