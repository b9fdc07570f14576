#include "train/session/state_transfer.h"

#include <doctest/doctest.h>

#include "tests/masked_memory.h"
#include "train/session/communicator_builder.h"

namespace elastictrain::session {
namespace {

struct FourBuffers {
  std::byte memory[512];
  tests::MaskedMemory port;
  state::StateBuffers buffers;

  FourBuffers() {
    buffers.add("counter", memory, 64);
    buffers.add("weights", memory + 64, 192, &port);
    buffers.add("rng", memory + 256, 64);
    buffers.add("momentum", memory + 320, 192, &port);
  }
};

protocol::GenerationPlan plan_of(std::vector<std::uint32_t> workers, std::vector<std::uint32_t> donors) {
  protocol::GenerationPlan plan;
  for (const auto worker : workers) {
    protocol::Member member;
    member.worker = WorkerId{worker};
    member.joiner = std::find(donors.begin(), donors.end(), worker) == donors.end();
    plan.members.push_back(member);
  }
  for (const auto donor : donors) plan.donors.push_back(WorkerId{donor});
  return plan;
}

TEST_CASE("every byte of a device reaches every joiner once, and no byte of the host's") {
  FourBuffers state;
  // Slices of 256 bytes: the first donor has 192 bytes of weights, the second 192 of momentum.
  const auto plan = plan_of({1, 2, 3, 4}, {2, 4});
  const auto first = device_transfers(state.buffers, plan, 1);
  REQUIRE(first.size() == 2);  // one piece for each of the two joiners
  CHECK(first[0].data == state.memory + 64);
  CHECK(first[0].bytes == 192);
  CHECK((first[0].peer == 0 && first[1].peer == 2));
  CHECK_FALSE(first[0].receives);
  const auto second = device_transfers(state.buffers, plan, 3);
  REQUIRE(second.size() == 2);
  CHECK(second[0].data == state.memory + 320);
  for (const std::uint32_t joiner : {0U, 2U}) {
    const auto received = device_transfers(state.buffers, plan, joiner);
    REQUIRE(received.size() == 2);
    CHECK((received[0].peer == 1 && received[0].data == state.memory + 64 && received[0].receives));
    CHECK((received[1].peer == 3 && received[1].data == state.memory + 320 && received[1].bytes == 192));
  }
}

TEST_CASE("a piece ends where its buffer or its donor's slice ends") {
  FourBuffers state;
  const auto plan = plan_of({1, 2, 3, 4, 5}, {1, 2, 3, 4});  // slices of 128 bytes
  const auto received = device_transfers(state.buffers, plan, 4);
  REQUIRE(received.size() == 4);
  const std::size_t offsets[] = {64, 128, 320, 384};
  const std::size_t bytes[] = {64, 128, 64, 128};
  for (std::uint32_t donor = 0; donor < 4; ++donor) {
    CHECK(received[donor].data == state.memory + offsets[donor]);
    CHECK(received[donor].bytes == bytes[donor]);
    CHECK(received[donor].peer == donor);
    CHECK(device_transfers(state.buffers, plan, donor).size() == 1);
  }
}

TEST_CASE("without joiners nothing is transferred") {
  FourBuffers state;
  CHECK(device_transfers(state.buffers, plan_of({1, 2}, {1, 2}), 0).empty());
}

TEST_CASE("a generation can be shrunk from the one before where some leave and the others keep their order") {
  using Ranks = std::vector<std::uint32_t>;
  const std::vector<WorkerId> before{{7}, {3}, {5}, {9}};
  CHECK(ranks_left_out(before, plan_of({7, 5}, {7})) == Ranks{1, 3});
  CHECK(ranks_left_out(before, plan_of({3, 5, 9}, {3})) == Ranks{0});
  CHECK(ranks_left_out(before, plan_of({7, 3, 5, 9}, {7})).empty());  // no worker leaves
  CHECK(ranks_left_out(before, plan_of({5, 7}, {7})).empty());        // another order
  CHECK(ranks_left_out(before, plan_of({7, 4, 9}, {7})).empty());     // a worker joins
  CHECK(ranks_left_out(before, plan_of({7, 3, 5, 9, 2}, {7})).empty());
  CHECK(ranks_left_out({}, plan_of({7}, {7})).empty());
}

}  // namespace
}  // namespace elastictrain::session
