// The communicator for host memory, with shared memory among the two ranks of a host and rails that the test plays: who
// carries what between hosts, and what an error or an abort does to both.
#include <doctest/doctest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <numeric>

#include "tests/contract/comm/wires.h"
#include "tests/support/contains.h"
#include "tests/support/in_a_process.h"
#include "train/comm/cpu_communicator.h"

namespace elastictrain::comm::testing {
namespace {

using elastictrain::test::contains;

// The other hosts: their sum is 100 everywhere, their bytes are 0x55.
class PlayedRail final : public Rail {
 public:
  struct Log {
    std::vector<std::size_t> reduced;              // floats of each sum
    std::vector<std::vector<std::size_t>> shared;  // bytes of the blocks of each share
    bool is_down = false;
    bool fails = false;
    bool waits = false;  // until it is shut down
    bool is_waiting = false;
    std::mutex mutex;
    std::condition_variable changed;
  };

  PlayedRail(Log& log, std::size_t own_host) : log_(log), own_host_(own_host) {}

  void watch(int, std::function<Status()>) override {}
  Status all_reduce(const ReduceVector& vector, ReduceStats*) override {
    log_.reduced.push_back(vector.size());
    if (log_.waits) return wait_for_the_end();
    if (log_.fails) return Error{ErrorCode::kPeerLost, "lost rank 9: it closed the connection"};
    vector.for_runs(0, vector.size(), [](const auto& run, std::size_t) {
      run.keep_input();
      for (std::size_t i = 0; i < run.count; ++i) run.values[i] = run.values[i] * run.scale + 100;
    });
    return {};
  }
  Status share(std::span<const Pieces> blocks) override {
    std::vector<std::size_t> sizes;
    for (std::size_t host = 0; host < blocks.size(); ++host) {
      sizes.push_back(blocks[host].size());
      if (host != own_host_) blocks[host].put(0, std::vector<std::byte>(blocks[host].size(), std::byte{0x55}));
    }
    log_.shared.push_back(sizes);
    return {};
  }
  bool reaches(std::uint32_t peer) const override { return peer == 2; }
  Status send(std::uint32_t, std::span<const std::byte>) override { return {}; }
  Status receive(std::uint32_t, std::span<std::byte>) override { return {}; }
  Status exchange(std::uint32_t, std::span<const std::byte>, std::span<std::byte>) override { return {}; }
  Status check_peers() const override { return {}; }
  void shut_down() noexcept override {
    const std::lock_guard lock(log_.mutex);
    log_.is_down = true;
    log_.changed.notify_all();
  }
  Traffic traffic() const override { return {}; }
  std::vector<PeerFigures> peers() const override { return {}; }

 private:
  Status wait_for_the_end() {
    std::unique_lock lock(log_.mutex);
    log_.is_waiting = true;
    log_.changed.notify_all();
    log_.changed.wait(lock, [this] { return log_.is_down; });
    return Error{ErrorCode::kPeerLost, "the rail was shut down"};
  }

  Log& log_;
  std::size_t own_host_;
};

// Hosts of a world, and the communicators of the ranks of its first one.
struct FirstHost {
  FirstHost(std::vector<Ranks> hosts, std::size_t rails) : logs(hosts.front().size()) {
    const std::size_t locals = hosts.front().size();
    comms.resize(locals);
    std::vector<std::vector<Socket>> ends(locals);
    for (std::size_t local = 1; local < locals; ++local) {
      auto pair = wire();
      ends[0].push_back(std::move(pair[0]));
      ends[local].push_back(std::move(pair[1]));
    }
    on_all([&](std::size_t local) { comms[local] = made(hosts, rails, local, std::move(ends[local])); });
  }
  std::unique_ptr<HybridCommunicator> made(const std::vector<Ranks>& hosts, std::size_t rails, std::size_t local,
                                           std::vector<Socket> ends) {
    Layout layout{hosts, 0, local, rails, hosts.front().size()};
    BuildSpec spec;
    spec.rank = hosts.front()[local];
    for (const auto& host : hosts) spec.peers.resize(spec.peers.size() + host.size());
    HybridParts parts;
    parts.name = "played";
    parts.control = std::make_unique<OpControl>(std::chrono::milliseconds(0), hosts.front().size(), 1);
    if (hosts.front().size() > 1) {
      auto group = ShmGroup::build(local, hosts.front().size(), std::move(ends), *parts.control, cancel,
                                   std::chrono::steady_clock::now() + std::chrono::seconds(20));
      if (!group) return nullptr;
      parts.group = std::move(*group);
    }
    if (hosts.size() > 1 && (local < rails || local == 0)) parts.rail = std::make_unique<PlayedRail>(logs[local], 0);
    return std::make_unique<HybridCommunicator>(spec, layout, std::move(parts));
  }
  void on_all(const std::function<void(std::size_t)>& body) const {
    std::vector<std::thread> threads;
    for (std::size_t local = 0; local < comms.size(); ++local) threads.emplace_back([&body, local] { body(local); });
    for (auto& thread : threads) thread.join();
  }
  // Rank r gives i + 10 r, twice; the lane is 1. True: all got what they must.
  bool sums(std::size_t count) {
    std::vector<int> right(comms.size());
    on_all([&](std::size_t local) {
      std::vector<float> data(count), lane{1};
      for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(i % 50 + 10 * local);
      const auto before = data;
      std::vector<float> keep(count);
      ReduceOptions options{.scale = 2, .lane = lane, .keep = keep};
      bool good = comms[local]->all_reduce(data, options, nullptr).ok() && keep == before;
      const auto of_ranks = static_cast<float>(20 * (comms.size() * (comms.size() - 1) / 2));
      for (std::size_t i = 0; i < count; ++i) {
        good = good && data[i] == 2 * static_cast<float>(comms.size() * (i % 50)) + of_ranks + 100;
      }
      right[local] = good && lane[0] == 100 + static_cast<float>(comms.size());
    });
    return std::accumulate(right.begin(), right.end(), 0) == static_cast<int>(comms.size());
  }

  CancelToken cancel;
  std::vector<PlayedRail::Log> logs;
  std::vector<std::unique_ptr<HybridCommunicator>> comms;
};

const std::vector<Ranks> kTwoByTwo{{0, 1}, {2, 3}};
constexpr std::size_t kLargestSmall = (64 << 10) / sizeof(float);  // with the lane

TEST_CASE("a small sum leaves its host once, a large one in a slice for each rail") {
  FirstHost host(kTwoByTwo, 2);
  CHECK(host.sums(0));
  CHECK(host.sums(1));
  CHECK(host.sums(kLargestSmall - 1));
  CHECK(host.logs[0].reduced == std::vector<std::size_t>{1, 2, kLargestSmall});
  CHECK(host.logs[1].reduced.empty());
  CHECK(host.sums(kLargestSmall));
  CHECK(host.sums(39'999));
  CHECK(host.logs[0].reduced.size() == 5);
  CHECK(host.logs[0].reduced.back() == 20'000);
  CHECK(host.logs[1].reduced.back() == 20'000);
  CHECK(host.logs[0].reduced[3] + host.logs[1].reduced[0] == kLargestSmall + 1);
}

TEST_CASE("as many rails as the smallest host has ranks: the others only share memory") {
  FirstHost host({{0, 1}, {2}}, 1);
  CHECK(host.sums(39'999));
  CHECK(host.logs[0].reduced == std::vector<std::size_t>{40'000});
  CHECK(host.logs[1].reduced.empty());
}

TEST_CASE("a host of one rank sums over its rail alone") {
  FirstHost host({{0}, {1}}, 1);
  CHECK(host.sums(3));
  CHECK(host.sums(39'999));
  CHECK(host.logs[0].reduced == std::vector<std::size_t>{4, 40'000});
}

TEST_CASE("bytes are gathered on the host, then among hosts by its first rank, then passed to the others") {
  FirstHost host(kTwoByTwo, 2);
  for (const std::size_t size : {0, 1, 300'000}) {
    std::vector<int> right(2);
    host.on_all([&](std::size_t local) {
      const std::vector<std::byte> mine(size, static_cast<std::byte>(local + 1));
      std::vector<std::byte> all(4 * size);
      bool good = host.comms[local]->all_gather(mine, all).ok();
      const std::byte expected[] = {std::byte{1}, std::byte{2}, std::byte{0x55}, std::byte{0x55}};
      for (std::size_t i = 0; i < all.size(); ++i) good = good && all[i] == expected[i / size];
      right[local] = good;
    });
    CHECK(right == std::vector<int>{1, 1});
    CHECK(host.logs[0].shared.back() == std::vector<std::size_t>{2 * size, 2 * size});
  }
  CHECK(host.logs[1].shared.empty());
}

TEST_CASE("a broadcast from another host reaches both ranks") {
  FirstHost host(kTwoByTwo, 2);
  std::vector<std::vector<std::byte>> data(2, std::vector<std::byte>(10));
  host.on_all([&](std::size_t local) { (void)host.comms[local]->broadcast(data[local], 3); });
  CHECK(data == std::vector<std::vector<std::byte>>(2, std::vector<std::byte>(10, std::byte{0x55})));
}

TEST_CASE("who is reached: the ranks of the host, and those that a rail reaches") {
  FirstHost host(kTwoByTwo, 2);
  CHECK(host.comms[0]->reaches(1));
  CHECK(host.comms[0]->reaches(2));
  CHECK_FALSE(host.comms[0]->reaches(3));
  CHECK_FALSE(host.comms[0]->reaches(0));
  CHECK_FALSE(host.comms[0]->reaches(4));
}

// --- Errors

TEST_CASE("an error of a rail breaks the communicators of the host, and every later call says so") {
  FirstHost host(kTwoByTwo, 2);
  host.logs[0].fails = true;
  std::vector<Status> first(2), second(2);
  host.on_all([&](std::size_t local) {
    std::vector<float> data(10, 1);
    first[local] = host.comms[local]->all_reduce(data, {}, nullptr);
    second[local] = host.comms[local]->barrier();
  });
  for (const auto& status : first) REQUIRE_FALSE(status.ok());
  CHECK(contains(first[0].error().message, "lost rank 9"));
  for (const auto& status : second) {
    REQUIRE_FALSE(status.ok());
    CHECK(contains(status.error().message, "broken by an earlier error"));
  }
  for (const auto& log : host.logs) CHECK(log.is_down);
}

TEST_CASE("an abort while one rank waits for other hosts and the other for it ends both") {
  FirstHost host(kTwoByTwo, 2);
  host.logs[0].waits = true;
  std::vector<Status> statuses(2);
  std::thread aborting([&] {
    std::unique_lock lock(host.logs[0].mutex);
    host.logs[0].changed.wait(lock, [&] { return host.logs[0].is_waiting; });
    lock.unlock();
    for (auto& comm : host.comms) comm->abort();
  });
  host.on_all([&](std::size_t local) {
    std::vector<float> data(10, 1);
    statuses[local] = host.comms[local]->all_reduce(data, {}, nullptr);
  });
  aborting.join();
  for (const auto& status : statuses) {
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kAborted);
  }
}

TEST_CASE("after an abort a sum keeps its input and does nothing") {
  FirstHost host({{0}, {1}}, 1);
  host.comms[0]->abort();
  std::vector<float> data{1, 2}, keep(2);
  const auto status = host.comms[0]->all_reduce(data, {.scale = 5, .keep = keep}, nullptr);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == ErrorCode::kAborted);
  CHECK(keep == std::vector<float>{1, 2});
  CHECK(host.logs[0].reduced.empty());
}

TEST_CASE("calls that cannot be right are refused by name") {
  FirstHost host({{0}, {1}}, 1);
  std::vector<std::byte> bytes(3);
  CHECK(contains(host.comms[0]->broadcast(bytes, 2).error().message, "no such rank"));
  CHECK(contains(host.comms[0]->send(bytes, 0).error().message, "rank 0 is not a peer of rank 0"));
  CHECK(contains(host.comms[0]->receive(bytes, 7).error().message, "rank 7 is not a peer"));
  CHECK(host.sums(1));  // nothing is broken so far
  CHECK(contains(host.comms[0]->all_gather(bytes, bytes).error().message, "room for one block of every rank"));
  CHECK_FALSE(host.sums(1));
}

// --- What must hold

TEST_CASE("two calls at a time, a rank that is on no host and a host without its rail end the process") {
  using elastictrain::test::in_a_process;
  CHECK(in_a_process([] {
          FirstHost host({{0}, {1}}, 1);
          host.logs[0].waits = true;
          std::thread first([&] { (void)host.comms[0]->barrier(); });
          {
            std::unique_lock lock(host.logs[0].mutex);
            host.logs[0].changed.wait(lock, [&] { return host.logs[0].is_waiting; });
          }
          std::vector<std::byte> bytes(1);
          (void)host.comms[0]->broadcast(bytes, 0);
        }).violated("a communicator makes one call at a time"));
  const auto built_as = [](std::uint32_t rank, const Layout& layout) {
    BuildSpec spec;
    spec.rank = rank;
    spec.peers.resize(2);
    HybridParts parts;
    parts.control = std::make_unique<OpControl>(std::chrono::milliseconds(0), 1, 1);
    HybridCommunicator comm(spec, layout, std::move(parts));
  };
  CHECK(in_a_process([&] { built_as(1, {{{0}, {1}}, 0, 0, 1, 1}); }).violated("a rank knows its place on its host"));
  CHECK(in_a_process([&] {
          built_as(0, {{{0}, {1}}, 0, 0, 1, 1});
        }).violated("a rank that carries bytes between hosts is on a rail"));
}

}  // namespace
}  // namespace elastictrain::comm::testing
