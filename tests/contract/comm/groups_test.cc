// Collectives within groups of ranks, over every layout: also where a group's ranks are not connected with each other.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "train/session/program_collectives.h"
#include "world.h"

namespace elastictrain::comm::testing {
namespace {

using session::Group;

std::vector<Shape> group_shapes() {
  return with_tree_shapes({shm(5), tcp(5), {.name = "3 hosts", .ranks_per_host = {3, 1, 2}}});
}

// What all ranks call, each with its group of `groups`; the amount of data differs between groups.
void check_groups(Communicator& all, std::uint32_t groups) {
  const std::uint32_t number = all.rank() % groups;
  std::vector<std::uint32_t> members;
  for (std::uint32_t rank = number; rank < all.world_size(); rank += groups) members.push_back(rank);
  auto group = Group::meet(all, number);
  CHECK(group.ok());
  CHECK(group->size() == members.size());

  const std::size_t count = 3 + number;
  std::vector<std::int32_t> sums(count, static_cast<std::int32_t>(all.rank()) + 1);
  std::int32_t expected = 0;
  for (const auto rank : members) expected += static_cast<std::int32_t>(rank) + 1;
  CHECK(group->reduce(std::as_writable_bytes(std::span(sums)), DataType::kInt32, Operation::kSum).ok());
  CHECK(sums == std::vector<std::int32_t>(count, expected));

  std::vector<std::uint32_t> gathered(members.size());
  const std::uint32_t mine = all.rank();
  CHECK(group->all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(gathered))).ok());
  CHECK(gathered == members);

  for (const std::uint32_t each : {0U, 1U, 4U}) {
    const std::uint32_t root = std::min(each, group->size() - 1);
    std::vector<std::uint32_t> values(count, all.rank());
    CHECK(group->broadcast(std::as_writable_bytes(std::span(values)), root).ok());
    CHECK(values == std::vector<std::uint32_t>(count, members[root]));
  }
}

TEST_CASE("groups sum, gather and broadcast among themselves") {
  for (const auto& shape : group_shapes()) {
    CAPTURE(shape.name);
    World world(shape);
    for (const std::uint32_t groups : {1U, 2U, 100U}) {
      world.run([groups](Communicator& all) { check_groups(all, groups); }, groups);
    }
  }
}

}  // namespace
}  // namespace elastictrain::comm::testing
