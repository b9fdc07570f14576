#include "tests/contract/comm/mpi/pool.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace elastictrain::comm::testing {
namespace {

constexpr std::chrono::seconds kPatience{60};

std::string host_of(Placement placement, std::size_t member) {
  switch (placement) {
    case Placement::kOneMachine:
      return "one";
    case Placement::kTwoMachines:
      return member / 2 == 0 ? "first" : "second";
    case Placement::kApart:
      break;
  }
  return std::to_string(member);
}

}  // namespace

Pool& Pool::here() {
  static Pool pool([] {
    auto world = MpiWorld::join(kPatience);
    if (!world) panic(world.error().message.c_str());
    return *world;
  }());
  return pool;
}

Pool::Pool(MpiWorld* world) : world_(world), endpoints_(world->size()) {
  auto listener = DataListener::open({.host_key = "pool"});
  if (!listener) panic(listener.error().message.c_str());
  listener_ = std::move(*listener);
  exchange_endpoints();
}

// Ranks that are apart need no connections.
void Pool::exchange_endpoints() {
  using Text = std::array<char, 128>;
  const auto everyone = build(first_ranks(size()), Placement::kApart);
  Text mine{};
  std::strncpy(mine.data(), listener_->endpoint().unix_name.c_str(), mine.size() - 1);
  std::vector<Text> all(size());
  const auto status = everyone->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  if (!status) panic(status.error().message.c_str());
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    endpoints_[rank] = {"pool", {"127.0.0.1"}, 1, all[rank].data()};
  }
}

Ranks first_ranks(std::uint32_t count) {
  Ranks ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::unique_ptr<Communicator> Pool::build(const Ranks& members, Placement placement,
                                          std::chrono::milliseconds operation_timeout) {
  BuildSpec spec{.generation = ++generation_, .operation_timeout = operation_timeout};
  spec.rank = static_cast<std::uint32_t>(std::find(members.begin(), members.end(), rank()) - members.begin());
  spec.deadline = std::chrono::steady_clock::now() + kPatience;
  for (std::size_t member = 0; member < members.size(); ++member) {
    spec.peers.push_back(endpoints_[members[member]]);
    spec.peers.back().host_key = host_of(placement, member);
  }
  CancelToken cancel;
  auto built = build_mpi_communicator(spec, *world_, members, *listener_, cancel);
  if (!built) panic(built.error().message.c_str());
  return std::move(built->communicator);
}

void Pool::run(std::uint32_t members, Placement placement, const Body& body,
               std::chrono::milliseconds operation_timeout) {
  if (rank() < members) {
    const auto comm = build(first_ranks(members), placement, operation_timeout);
    body(*comm);
  } else {
    skip_generation();
  }
  meet();
}

void Pool::run_at_all_sizes(const Body& body, std::uint32_t min) {
  for (const auto placement : {Placement::kApart, Placement::kTwoMachines, Placement::kOneMachine}) {
    for (std::uint32_t members = min; members <= size(); ++members) run(members, placement, body);
  }
}

void Pool::meet() {
  const auto everyone = build(first_ranks(size()), Placement::kApart, kPatience);
  if (auto status = everyone->barrier(); !status) panic(status.error().message.c_str());
}

}  // namespace elastictrain::comm::testing
