// Generations made from the previous one by Shrink, also after a Revoke, on NCCL's stand-in: where all members can use
// it, where one cannot, and what ends it when it hangs.
#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "tests/contract/comm/device_bucket.h"
#include "tests/contract/comm/nccl_traps.h"
#include "tests/contract/comm/world.h"

namespace elastictrain::comm::testing {
namespace {

// The next case counts communicators from zero.
struct AwaitEnds {
  ~AwaitEnds() { await_nccl_ends(seconds(20)); }
};

// One generation that trains, and those shrunk from it.
class Shrinks {
 public:
  explicit Shrinks(std::size_t ranks, milliseconds limit = milliseconds(200))
      : await_ends_(), world_(shm(ranks)), limit_(limit), running_(build(1, all_ranks(), {})) {
    sum_on(running_, float(ranks));
  }

  std::vector<std::uint32_t> all_ranks() const {
    std::vector<std::uint32_t> ranks(world_.size());
    std::iota(ranks.begin(), ranks.end(), 0U);
    return ranks;
  }
  std::vector<std::shared_ptr<Communicator>>& running() { return running_; }

  // Builds `generation` from the members that stay, each on a thread of its own.
  std::vector<std::shared_ptr<Communicator>> build(Generation generation, const std::vector<std::uint32_t>& stay,
                                                   const std::vector<std::uint32_t>& left_out,
                                                   NcclBuild last_rank_wants = NcclBuild::kShrink) {
    std::vector<std::shared_ptr<Communicator>> made(stay.size());
    each(stay.size(), [&](std::size_t rank) {
      auto spec = world_.spec(stay[rank], generation);
      spec.rank = static_cast<std::uint32_t>(rank);
      spec.peers.clear();
      for (const std::uint32_t old : stay) spec.peers.push_back(world_.listener(old).endpoint());
      CancelToken never;
      auto host_plane = build_cpu_communicator(spec, world_.listener(stay[rank]), never);
      if (!host_plane) return;
      use_device_of(stay[rank]);
      auto options = options_until(seconds(60));
      options.build = rank + 1 == stay.size() ? last_rank_wants : NcclBuild::kShrink;
      options.shrink_limit = limit_;
      RunningGeneration before;
      if (!left_out.empty()) before = {running_[stay[rank]], left_out};
      auto built = build_nccl_communicator(std::move(host_plane->communicator), options, never, before);
      if (built) made[rank] = std::move(*built);
    });
    return made;
  }

  // All members sum ones; the sum must be `expected` at all of them.
  void sum_on(std::vector<std::shared_ptr<Communicator>>& generation, float expected) {
    std::atomic<int> right{0};
    each(generation.size(), [&](std::size_t rank) {
      Bucket bucket(std::vector<float>(100, 1.0F));
      if (!generation[rank]) return;
      right += generation[rank]->device_sums()->all_reduce_device(bucket.reduce()).ok() &&
               bucket.data() == std::vector<float>(100, expected);
    });
    REQUIRE(right == static_cast<int>(generation.size()));
  }

  template <class Work>
  static void each(std::size_t count, const Work& work) {
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < count; ++rank) ranks.emplace_back([&work, rank] { work(rank); });
    for (auto& rank : ranks) rank.join();
  }

 private:
  const AwaitEnds await_ends_;  // after all others
  World world_;
  const milliseconds limit_;
  std::vector<std::shared_ptr<Communicator>> running_;
};

TEST_CASE("ranks that stay continue with a communicator that was shrunk at the swap, and all abort the previous one") {
  CHECK(await_nccl_ends(seconds(20)));
  const auto before = counters();
  {
    Shrinks ranks(4);
    auto next = ranks.build(2, {0, 2, 3}, {1});
    CHECK(counters().shrunk == before.shrunk);  // the parent still trains, so nothing else may run in it
    ranks.sum_on(ranks.running(), 4);
    // The leaver closes while the others shrink.
    ranks.running()[1].reset();
    ranks.sum_on(next, 3);
    CHECK(counters().shrunk == before.shrunk + 3);
    CHECK(counters().begun == before.begun + 4);
    ranks.running().clear();
    CHECK(await_nccl_ends(seconds(20)));
    CHECK(counters().aborted == before.aborted + 4);
    ranks.running() = std::move(next);
    auto last = ranks.build(3, {0, 1}, {2});
    ranks.sum_on(last, 2);
    CHECK(counters().shrunk == before.shrunk + 5);
  }
  CHECK(await_nccl_ends(seconds(20)));
  CHECK(counters().misused == before.misused);
  CHECK(counters().alive == before.alive);
  CHECK(counters().intruders == 0);
}

TEST_CASE("after a loss that NCCL does not report the survivors' communicator is revoked and shrunk at once") {
  CHECK(await_nccl_ends(seconds(20)));
  const auto before = counters();
  {
    Shrinks ranks(3);
    const Faults faults("silent-loss");
    auto& running = ranks.running();
    std::vector<Status> statuses(2);
    Shrinks::each(3, [&](std::size_t rank) {
      if (rank == 2) return running[2]->abort();
      Bucket bucket(1000);
      statuses[rank] = running[rank]->device_sums()->all_reduce_device(bucket.reduce());
      running[rank]->abort();
    });
    CHECK_FALSE((statuses[0].ok() || statuses[1].ok()));
    auto next = ranks.build(2, {0, 1}, {2});
    CHECK(counters().shrunk == before.shrunk + 2);
    ranks.sum_on(next, 2);
    running.clear();
  }
  CHECK(await_nccl_ends(seconds(20)));
  CHECK(counters().revoked == before.revoked + 3);
  CHECK(counters().misused == before.misused);
  CHECK(counters().alive == before.alive);
}

TEST_CASE("what the survivors of a loss were in is freed before they build afresh") {
  CHECK(await_nccl_ends(seconds(20)));
  const auto before = counters();
  Shrinks ranks(3);
  {
    const Faults faults("mapped-memory,joint-revoke");
    Shrinks::each(3, [&](std::size_t rank) { ranks.running()[rank]->abort(); });
    CHECK(await_nccl_ends(seconds(20)));
    CHECK(counters().revoked == before.revoked + 3);
    CHECK(counters().aborted == before.aborted);
    auto next = ranks.build(2, {0, 1}, {2}, NcclBuild::kBackground);
    CHECK(counters().aborted == before.aborted + 2);
    ranks.sum_on(next, 2);
  }
  CHECK(await_nccl_ends(seconds(20)));
}

TEST_CASE("a survivor to which a network error sticks makes all build afresh after a loss") {
  CHECK(await_nccl_ends(seconds(20)));
  const auto before = counters();
  Shrinks ranks(3);
  {
    const Faults faults("async-error@2");
    Shrinks::each(3, [&](std::size_t rank) { ranks.running()[rank]->abort(); });
    auto next = ranks.build(2, {1, 2}, {0});
    CHECK(counters().shrunk == before.shrunk);
    ranks.sum_on(next, 2);
  }
  CHECK(await_nccl_ends(seconds(20)));
}

TEST_CASE("a Revoke that is never done becomes an abort, and the next generation is built afresh") {
  CHECK(await_nccl_ends(seconds(20)));
  const auto before = counters();
  Shrinks ranks(3);
  {
    const Faults faults("stall-revoke@0");
    Shrinks::each(3, [&](std::size_t rank) { ranks.running()[rank]->abort(); });
    auto next = ranks.build(2, {0, 1}, {2});
    CHECK(counters().shrunk == before.shrunk);
    ranks.sum_on(next, 2);
  }
  CHECK(await_nccl_ends(seconds(20)));
}

TEST_CASE("a Shrink that fails on one rank, hangs or finds no parent any more is given up by all for a fresh build") {
  for (const char* fault : {"fail-shrink@2", "stall-shrink@0", "async-error@2", "closed", "another build"}) {
    CAPTURE(fault);
    CHECK(await_nccl_ends(seconds(20)));
    const auto before = counters();
    {
      Shrinks ranks(3);
      const bool other_build = fault == std::string("another build");
      auto next = ranks.build(2, {0, 2}, {1}, other_build ? NcclBuild::kBackground : NcclBuild::kShrink);
      {
        const Faults faults(fault);
        if (fault == std::string("closed")) ranks.running()[2].reset();
        ranks.sum_on(next, 2);
        ranks.running().clear();
      }
      CHECK(counters().begun == before.begun + 5);
    }
    CHECK(await_nccl_ends(seconds(20)));
    CHECK(counters().alive == before.alive);
    CHECK(counters().misused == before.misused);
  }
}

TEST_CASE("an Abort ends a Shrink that hangs, with its parent") {
  CHECK(await_nccl_ends(seconds(20)));
  const auto before = counters();
  {
    Shrinks ranks(3, seconds(60));
    auto next = ranks.build(2, {0, 1}, {2});
    const Faults faults("stall-shrink");
    std::vector<Status> statuses(2);
    std::thread aborts([&] {
      std::this_thread::sleep_for(milliseconds(20));
      next[0]->abort();
    });
    Shrinks::each(2, [&](std::size_t rank) {
      Bucket bucket(10);
      statuses[rank] = next[rank]->device_sums()->all_reduce_device(bucket.reduce());
    });
    aborts.join();
    CHECK(statuses[0].error().code == ErrorCode::kAborted);
    CHECK_FALSE(statuses[1].ok());
    ranks.running().clear();
  }
  CHECK(await_nccl_ends(seconds(20)));
  CHECK(counters().alive == before.alive);
}

TEST_CASE("where the library has no Shrink the next generation is built afresh") {
  Shrinks ranks(3);
  auto next = ranks.build(2, {0, 1}, {2});
  ranks.sum_on(next, 2);
  next[1]->abort();
  next[0]->abort();
}

}  // namespace
}  // namespace elastictrain::comm::testing
