// Many generations in sequence must not leak resources.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/contract/comm/world.h"

namespace elastictrain::comm::testing {
namespace {

struct Footprint {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  std::size_t shared_mappings = 0;
  std::size_t resident_kib = 0;
};

std::size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

Footprint footprint() {
  // A joined thread may still be listed for a moment.
  for (int look = 0; look < 1000 && entries("/proc/self/task") > 1; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Footprint found{entries("/proc/self/fd"), entries("/proc/self/task"), 0, 0};
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) found.shared_mappings += line.find("memfd:elastic") != line.npos;
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  found.resident_kib = resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
  return found;
}

void one_generation(World& world, Generation generation, std::atomic<int>& wrong) {
  world.run(
      [&](Communicator& comm) {
        std::vector<float> data(3000, 1.0F);
        if (!comm.all_reduce(data) || data[0] != static_cast<float>(world.size())) ++wrong;
      },
      generation);
}

void expect_no_growth(const Footprint& before, const Footprint& after) {
  CHECK(after.descriptors == before.descriptors);
  CHECK(after.threads == before.threads);
  CHECK(after.shared_mappings == 0);
#ifndef __SANITIZE_ADDRESS__  // AddressSanitizer holds back up to 256 MiB of freed memory; its leak detector checks
                              // instead
  CHECK(after.resident_kib < before.resident_kib + 16 * 1024);
#endif
}

TEST_CASE("a thousand generations leave no descriptor, thread, mapping or memory behind") {
  World mixed({"2 hosts with 2 and 1 ranks", {2, 1}});
  World flat(tcp(2));
  std::atomic<int> wrong{0};
  for (Generation generation = 1; generation <= 20; ++generation) one_generation(mixed, generation, wrong);
  one_generation(flat, 1, wrong);
  const auto before = footprint();
  for (Generation generation = 21; generation <= 1020; ++generation) {
    one_generation(generation % 2 == 0 ? mixed : flat, generation, wrong);
  }
  expect_no_growth(before, footprint());
  CHECK(wrong == 0);
}

// The rank in this process survives. Its peers are processes, and one of them is killed in every generation.
bool survive_a_kill(World& world, Generation generation) {
  std::vector<pid_t> peers;
  for (std::uint32_t rank = 1; rank < world.size(); ++rank) {
    peers.push_back(fork_rank([&, rank] {
      const auto comm = world.build(rank, generation);
      std::vector<float> data(50'000, 1.0F);
      while (comm->all_reduce(data)) {
      }
      return 0;
    }));
  }
  const auto comm = world.build(0, generation);
  std::vector<float> data(50'000, 1.0F);
  Status status;
  for (int step = 0; status; ++step) {
    if (step == 3) ::kill(peers.back(), SIGKILL);
    status = comm->all_reduce(data);
  }
  const bool killed = join_rank(peers.back()) == -SIGKILL;
  peers.pop_back();
  bool others_ended = true;
  for (const auto pid : peers) others_ended &= join_rank(pid) == 0;
  return killed && others_ended;
}

TEST_CASE("fifty generations that each lose a process to SIGKILL leave nothing behind") {
  World world({"2 hosts with 2 and 1 ranks", {2, 1}});
  World local(shm(3));
  REQUIRE(survive_a_kill(world, 1));
  REQUIRE(survive_a_kill(local, 1));
  const auto before = footprint();
  for (Generation generation = 2; generation <= 51; ++generation) {
    CHECK(survive_a_kill(generation % 2 == 0 ? world : local, generation));
  }
  expect_no_growth(before, footprint());
}

}  // namespace
}  // namespace elastictrain::comm::testing
