// NCCL's effects on programs that hot-swap its communicators, one case each, on its stand-in: builds that never end,
// fail or wait for the device, sums that connect late, losses that are not reported. Ends are in nccl_ends_test.cc.
#include <doctest/doctest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/contract/comm/device_bucket.h"
#include "tests/contract/comm/nccl_traps.h"
#include "tests/contract/comm/world.h"
#include "train/comm/nccl/build_agreement.h"
#include "train/comm/nccl/nccl_communicator.h"
#include "train/comm/nccl/nccl_library.h"
#include "train/comm/nccl/nccl_trial.h"

namespace elastictrain::comm::testing {
namespace {

TEST_CASE("a build that never ends ends at its deadline, is aborted and leaves nothing") {
  World world(shm(2));
  const auto before = counters();
  {
    const Faults faults("stall-init");
    const auto options = options_until(seconds(1));  // that both builds begin in
    const auto all = build_all(world, 1, [&](auto) { return options; });
    for (const auto& outcome : all) {
      REQUIRE_FALSE(outcome.status.ok());
      CHECK(outcome.status.error().code == ErrorCode::kTimeout);
    }
  }
  CHECK(counters().alive == before.alive);
  CHECK(counters().aborted == before.aborted + 2);
  CHECK(counters().destroyed == before.destroyed);
  const auto again = build_all(world, 2, [](auto) { return options_until(seconds(20)); });
  CHECK(again[0].status.ok());
}

TEST_CASE("a communicator that was built in the background connects nothing in its first buckets") {
  World world(shm(3));
  const auto all = build_all(world, 1, [](auto) { return options_until(seconds(20)); });
  const int met = counters().met;
  std::atomic<int> wrong{0};
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      use_device_of(rank);
      for (const std::size_t count : {std::size_t{10}, std::size_t{100'000}}) {
        Bucket bucket(std::vector<float>(count, 1.0F));
        if (!all[rank].communicator->device_sums()->all_reduce_device(bucket.reduce())) ++wrong;
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  CHECK(wrong == 0);
  CHECK(counters().met == met);
}

TEST_CASE("sums that connect late are waited for, and no call comes before the end of the last") {
  World world(shm(2));
  const auto all = build_all(world, 1, [](auto) { return options_until(seconds(20)); });
  const Faults faults("connect-late");
  const auto before = counters();
  std::atomic<int> wrong{0};
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      use_device_of(rank);
      if (rank == 1) std::this_thread::sleep_for(milliseconds(20));
      Bucket bucket(std::vector<float>(10, 1.0F));
      for (float expected : {2.0F, 4.0F}) {
        if (!all[rank].communicator->device_sums()->all_reduce_device(bucket.reduce())) ++wrong;
        if (bucket.data()[9] != expected) ++wrong;
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  CHECK(wrong == 0);
  CHECK(counters().met == before.met + 2);
  CHECK(counters().unpolled == before.unpolled);
}

TEST_CASE("a wait for a sum behind long kernels asks rarely, and leaves the core to the thread that feeds the device") {
  World world(shm(2));
  const auto all = build_all(world, 1, [](auto) { return options_until(seconds(20)); });
  const auto begin = steady_clock::now();
  const auto before = standin_cuda_queries();
  std::atomic<int> wrong{0};
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      use_device_of(rank);
      Bucket bucket(std::vector<float>(10, 1.0F));
      standin_cuda_enqueue(
          bucket.stream(), [](void*) { std::this_thread::sleep_for(milliseconds(300)); }, nullptr);
      if (!all[rank].communicator->device_sums()->all_reduce_device(bucket.reduce())) ++wrong;
    });
  }
  for (auto& rank : ranks) rank.join();
  CHECK(wrong == 0);
  const auto queries = standin_cuda_queries() - before;
  const auto waited = steady_clock::now() - begin;
  CHECK(queries > 100);
  CHECK(queries < 2 * static_cast<std::size_t>(waited / std::chrono::microseconds(20)));
}

TEST_CASE("a build that is cancelled ends at once") {
  World world(shm(2));
  const Faults faults("stall-init");
  CancelToken cancel;
  std::thread canceller([&] {
    std::this_thread::sleep_for(milliseconds(60));
    cancel.cancel();
  });
  const auto all = build_all(
      world, 1, [](auto) { return options_until(seconds(60)); }, cancel);
  canceller.join();
  for (const auto& outcome : all) CHECK(outcome.status.error().code == ErrorCode::kAborted);
}

TEST_CASE("a build that fails on one rank fails on all, long before its deadline") {
  World world(shm(3));
  const Faults faults("fail-init@1");
  const auto started = steady_clock::now();
  const auto all = build_all(world, 1, [](auto) { return options_until(seconds(60)); });
  for (const auto& outcome : all) CHECK_FALSE(outcome.status.ok());
  CHECK(steady_clock::now() - started < seconds(30));
}

TEST_CASE("without a helper that makes ids every rank gets rank 0's reason") {
  World world(shm(2));
  for (const std::vector<std::string>& helper :
       {std::vector<std::string>{}, {"/nowhere/elastictrain", "nccl-id"}, {"/bin/true"}}) {
    const auto all = build_all(world, 1, [&](auto) {
      auto options = options_until(seconds(20));
      options.id_helper = helper;
      return options;
    });
    for (const auto& outcome : all) {
      REQUIRE_FALSE(outcome.status.ok());
      CHECK(outcome.status.error().message.find("rank 0 has no unique id") != std::string::npos);
    }
  }
}

TEST_CASE("ids are made by a process that ends with its worker's interest, not in the worker") {
  const auto roots = counters().roots;
  CancelToken cancel;
  pid_t pid = 0;
  {
    const auto helper = UniqueIdHelper::start(unique_id_command(), 3, cancel, steady_clock::now() + seconds(20));
    REQUIRE(helper.ok());
    CHECK(helper->ids().size() == 3);
    pid = helper->pid();
    CHECK(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) != 0);
  CHECK(counters().roots == roots);
}

TEST_CASE("a trial shows whether NCCL works with the driver, and leaves nothing") {
  const auto before = counters();
  const auto device = *device::Device::open(0);
  CHECK(try_nccl(device, unique_id_command(), seconds(20)).ok());
  CHECK(counters().alive == before.alive);
  CHECK(counters().leaked == before.leaked);
  const Faults faults("fail-init");
  const auto failed = try_nccl(device, unique_id_command(), seconds(20));
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().message.find("build trial") != std::string::npos);
}

// Ends when it is opened, or late and by itself, so that a failure ends as well.
class BusyDevice {
 public:
  explicit BusyDevice(std::uint32_t rank) {
    use_device_of(rank);
    stream_ = std::move(*device::Stream::create(*device::Device::open(device_of_this_thread())));
    standin_cuda_enqueue(
        stream_.handle(),
        [](void* argument) {
          auto& busy = *static_cast<BusyDevice*>(argument);
          const auto latest = steady_clock::now() + seconds(20);
          while (!busy.open_ && steady_clock::now() < latest) std::this_thread::sleep_for(milliseconds(1));
          busy.done_ = true;
        },
        this);
  }
  ~BusyDevice() {
    open_ = true;
    (void)stream_.synchronize();
  }
  bool is_busy() const { return !done_; }

 private:
  std::atomic<bool> open_{false};
  std::atomic<bool> done_{false};
  device::Stream stream_;
};

TEST_CASE("after a trial a build waits for no busy device: all kernels are loaded") {
  constexpr std::uint32_t kFresh = 6;  // no other case uses this device
  use_device_of(kFresh);
  const auto device = *device::Device::open(device_of_this_thread());
  REQUIRE(try_nccl(device, unique_id_command(), seconds(20)).ok());
  const BusyDevice busy(kFresh);
  World world(shm(2));
  const auto all = build_all(world, 1, [&](std::uint32_t rank) {
    auto options = options_until(seconds(60));
    if (rank == 0) options.device = device;
    return options;
  });
  CHECK(busy.is_busy());
  CHECK(all[0].communicator);
}

TEST_CASE("an error that NCCL reports on one rank ends the call on all, and later calls at once") {
  World world(shm(3));
  auto all = build_all(world, 1, [](auto) { return options_until(seconds(20)); });
  std::vector<Status> statuses(3);
  {
    const Faults faults("async-error@1");
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        use_device_of(rank);
        Bucket bucket(1000);
        statuses[rank] = all[rank].communicator->device_sums()->all_reduce_device(bucket.reduce());
      });
    }
    for (auto& rank : ranks) rank.join();
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK_FALSE(statuses[rank].ok());
    CHECK_FALSE(all[rank].communicator->barrier().ok());
  }
}

TEST_CASE("a loss that NCCL does not report is detected by the host plane's connections") {
  World world(shm(3));
  const Faults faults("silent-loss");
  auto all = build_all(world, 1, [](auto) { return options_until(seconds(20)); });
  std::vector<Status> statuses(3);
  std::vector<std::thread> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      use_device_of(rank);
      Bucket bucket(1000);
      statuses[rank] = all[rank].communicator->device_sums()->all_reduce_device(bucket.reduce());
    });
  }
  std::this_thread::sleep_for(milliseconds(30));
  all[2].communicator->abort();
  for (auto& rank : ranks) rank.join();
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    REQUIRE_FALSE(statuses[rank].ok());
    CHECK(statuses[rank].error().code == ErrorCode::kPeerLost);
  }
}

TEST_CASE("a build that blocks training is postponed to the swap, on all ranks") {
  World world(shm(2));
  const auto stuck = [](std::uint32_t rank) {
    auto options = options_until(seconds(60));
    // Rank 1 is a joiner: it does not train yet.
    if (rank == 0) options.step_clock = [] { return StepClock{7, std::chrono::microseconds(1000)}; };
    return options;
  };
  std::vector<BuildOutcome> all;
  {
    const Faults faults("stall-init");
    all = build_all(world, 1, stuck);
  }
  for (const auto& outcome : all) REQUIRE(outcome.communicator);
  std::atomic<int> wrong{0};
  std::vector<std::thread> ranks;
  for (auto& outcome : all) {
    ranks.emplace_back([&] {
      Bucket bucket(std::vector<float>(10, 1.0F));
      if (!outcome.communicator->device_sums()->all_reduce_device(bucket.reduce()) || bucket.data()[9] != 2.0F) ++wrong;
    });
  }
  for (auto& rank : ranks) rank.join();
  CHECK(wrong == 0);
}

TEST_CASE("a build that waits for the device, which waits for a peer, which waits for its build, ends and is put off") {
  World world(shm(2));
  auto old = build_all(world, 1, [](auto) { return options_until(seconds(20)); });
  const Faults faults("sync-init");
  std::atomic<std::uint64_t> steps{1};
  std::vector<Status> sums(2);
  const auto sum = [&](std::uint32_t rank) {
    use_device_of(rank);
    Bucket bucket(100);
    sums[rank] = old[rank].communicator->device_sums()->all_reduce_device(bucket.reduce());
    ++steps;
  };
  std::thread waits([&] { sum(0); });
  while (standin_cuda_idle()) std::this_thread::yield();
  // Rank 1 cannot start its part while it builds.
  auto next = build_all(world, 2, [&](auto) {
    auto options = options_until(seconds(60));
    options.step_clock = [&] { return StepClock{steps, std::chrono::microseconds(1000)}; };
    return options;
  });
  sum(1);
  waits.join();
  CHECK((sums[0].ok() && sums[1].ok()));
  std::vector<std::thread> ranks;
  std::atomic<int> wrong{0};
  for (auto& outcome : next) {
    REQUIRE(outcome.communicator);
    ranks.emplace_back([&] {
      Bucket bucket(std::vector<float>(10, 1.0F));
      if (!outcome.communicator->device_sums()->all_reduce_device(bucket.reduce()) || bucket.data()[0] != 2.0F) ++wrong;
    });
  }
  for (auto& rank : ranks) rank.join();
  CHECK(wrong == 0);
}

TEST_CASE("a rank that requests the build at the swap gets it on all ranks") {
  World world(shm(2));
  const int begun = counters().begun;
  auto all = build_all(world, 1, [](std::uint32_t rank) {
    auto options = options_until(seconds(20));
    if (rank == 1) options.build = NcclBuild::kAtSwap;
    return options;
  });
  CHECK(counters().begun == begun);
  std::vector<std::thread> ranks;
  std::atomic<int> wrong{0};
  for (auto& outcome : all) {
    ranks.emplace_back([&] {
      Bucket bucket(std::vector<float>(10, 1.0F));
      if (!outcome.communicator->device_sums()->all_reduce_device(bucket.reduce())) ++wrong;
    });
  }
  for (auto& rank : ranks) rank.join();
  CHECK(wrong == 0);
  CHECK(counters().begun == begun + 2);
}

TEST_CASE("a standstill is many normal steps without one, and none where no step time is known") {
  StallWatch watch;
  const auto start = steady_clock::time_point(seconds(100));
  CHECK_FALSE(watch.stands_still({5, std::chrono::microseconds(100'000)}, start));
  CHECK_FALSE(watch.stands_still({5, std::chrono::microseconds(100'000)}, start + milliseconds(999)));
  CHECK(watch.stands_still({5, std::chrono::microseconds(100'000)}, start + milliseconds(1001)));
  CHECK_FALSE(watch.stands_still({6, std::chrono::microseconds(100'000)}, start + milliseconds(1002)));
  CHECK_FALSE(watch.stands_still({6, std::chrono::microseconds(0)}, start + seconds(1000)));
  CHECK_FALSE(watch.stands_still({6, std::chrono::microseconds(1000), true}, start + seconds(1000)));
  CHECK_FALSE(watch.stands_still({6, std::chrono::microseconds(1000)}, start + milliseconds(1'000'499)));
  CHECK_FALSE(watch.stands_still({7, std::chrono::microseconds(10)}, start + seconds(1001)));
  CHECK_FALSE(watch.stands_still({7, std::chrono::microseconds(10)}, start + seconds(1001) + milliseconds(499)));
}

TEST_CASE("a large world gets several ids where all ranks' libraries take them") {
  CHECK(ids_for(2, 256, true) == 1);
  CHECK(ids_for(255, 256, true) == 1);
  CHECK(ids_for(256, 256, true) == 2);
  CHECK(ids_for(1000, 256, true) == 8);
  CHECK(ids_for(1000, 256, false) == 1);
  World world(shm(2));
  const int scalable = counters().scalable;
  const auto all = build_all(world, 1, [](auto) {
    auto options = options_until(seconds(20));
    options.several_ids_from = 2;
    return options;
  });
  CHECK(all[0].communicator);
  CHECK(counters().scalable == scalable + 2);
}

TEST_CASE("known defects are reported for the versions that have them") {
  CHECK(known_nccl_issues(22805).size() == 1);
  CHECK(known_nccl_issues(22809).size() == 1);
  CHECK(known_nccl_issues(22707)[0].find("#1996") != std::string::npos);
  CHECK(known_nccl_issues(22304).empty());
  CHECK_FALSE(known_nccl_issues(21700).empty());
  for (const int version : {22602, 22707}) CHECK(nccl_ras_crashes(version));
  CHECK_FALSE(nccl_ras_crashes(22809));
  CHECK(nccl_version_text(22809) == "2.28.9");
}

}  // namespace
}  // namespace elastictrain::comm::testing
