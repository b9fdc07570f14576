// Ranks that are killed in the middle of an all-reduce, several in one launch. The others abandon the generation,
// repeat the open all-reduce in the next one from their kept input, and continue. The launch must survive the loss of a
// rank.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/contract/comm/mpi/pool.h"

namespace elastictrain::comm::testing {
namespace {

constexpr std::size_t kCount = 1'000'003;

// All-reduces until the generation breaks, then one of the kept input on `next`. Returns the value that this rank had
// reached.
float reduce_until_broken(Communicator& comm, std::vector<float>& keep, float value) {
  std::vector<float> data(kCount);
  for (Status status; status; value += 1.0F) {
    data.assign(kCount, value * static_cast<float>(comm.rank() + 1));
    status = comm.all_reduce(data, {.scale = 0.25F, .keep = keep}, nullptr);
    CHECK((status.ok() || status.error().code != ErrorCode::kTimeout));
  }
  return (value - 1.0F) * static_cast<float>(comm.rank() + 1);
}

TEST_CASE("lost ranks: each loss costs one rank, and the others continue with correct sums") {
  Pool& pool = Pool::here();
  auto members = first_ranks(pool.size());
  REQUIRE(members.size() == 4);
  for (const auto placement : {Placement::kTwoMachines, Placement::kApart}) {
    const auto victim = members[members.size() / 2];
    const auto comm = pool.build(members, placement);
    REQUIRE(comm->barrier().ok());
    std::vector<float> keep(kCount);
    std::thread supervisor([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      if (pool.rank() == victim) ::kill(::getpid(), SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      comm->abort();
    });
    const float mine = reduce_until_broken(*comm, keep, 1.0F);
    supervisor.join();
    CHECK(keep == std::vector<float>(kCount, mine));
    members.erase(std::find(members.begin(), members.end(), victim));
    const auto next = pool.build(members, placement);
    std::array<float, 1> whole{mine};
    const auto first = next->all_reduce(whole, {}, nullptr);
    REQUIRE_MESSAGE(first.ok(), first.error().message);
    const auto again = next->all_reduce(keep, {}, nullptr);
    REQUIRE_MESSAGE(again.ok(), again.error().message);
    CHECK(keep == std::vector<float>(kCount, whole[0]));
  }
}

}  // namespace
}  // namespace elastictrain::comm::testing
