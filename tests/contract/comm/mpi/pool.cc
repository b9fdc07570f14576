#include "tests/contract/comm/mpi/pool.h"

#include <algorithm>
#include <numeric>

namespace elastictrain::comm::testing {

Pool& Pool::here() {
  static Pool pool([] {
    auto world = MpiWorld::join(std::chrono::seconds(60));
    if (!world) panic(world.error().message.c_str());
    return *world;
  }());
  return pool;
}

std::vector<std::uint32_t> first_ranks(std::uint32_t count) {
  std::vector<std::uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::unique_ptr<MpiCommunicator> Pool::build(const std::vector<std::uint32_t>& members,
                                             std::chrono::milliseconds operation_timeout) {
  BuildSpec spec{.generation = ++generation_, .operation_timeout = operation_timeout};
  spec.rank = static_cast<std::uint32_t>(std::find(members.begin(), members.end(), rank()) - members.begin());
  spec.peers.resize(members.size(), {.host_key = "this machine"});
  return std::make_unique<MpiCommunicator>(spec, *world_, members);
}

void Pool::run(std::uint32_t members, const Body& body, std::chrono::milliseconds operation_timeout) {
  if (rank() < members) {
    const auto comm = build(first_ranks(members), operation_timeout);
    body(*comm);
  } else {
    skip_generation();
  }
  meet();
}

void Pool::run_at_all_sizes(const Body& body, std::uint32_t least) {
  for (std::uint32_t members = least; members <= size(); ++members) run(members, body);
}

void Pool::meet() {
  const auto everyone = build(first_ranks(size()), std::chrono::seconds(60));
  if (auto status = everyone->barrier(); !status) panic(status.error().message.c_str());
}

}  // namespace elastictrain::comm::testing
