#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <vector>

#include "train/state/sampler.h"

namespace elastictrain::state {
namespace {

TEST_CASE("an epoch's order is a permutation of all samples, whatever their number") {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 7, 31, 32, 33, 100, 1000, 3823, 65537}) {
    const Permutation permutation(size, 42, 3);
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto sample = permutation.at(i);
      REQUIRE(sample < size);
      REQUIRE_FALSE(seen[sample]);
      seen[sample] = true;
    }
  }
}

TEST_CASE("epochs and seeds give different orders") {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    const Permutation permutation(1000, seed, epoch);
    std::vector<std::uint64_t> samples(1000);
    for (std::uint64_t i = 0; i < 1000; ++i) samples[i] = permutation.at(i);
    return samples;
  };
  CHECK(order(1, 0) == order(1, 0));
  CHECK(order(1, 0) != order(1, 1));
  CHECK(order(1, 0) != order(2, 0));
}

TEST_CASE("the format of the order does not change between versions") {
  const Permutation permutation(1000, 7, 0);
  const std::vector<std::uint64_t> first{permutation.at(0), permutation.at(1), permutation.at(2), permutation.at(3)};
  CHECK(first == std::vector<std::uint64_t>{250, 737, 253, 622});
}

TEST_CASE("neighbours in an epoch are spread over the data set") {
  constexpr std::uint64_t kSize = 4096;
  const Permutation permutation(kSize, 11, 0);
  std::vector<int> per_sixteenth(16);
  double correlation = 0;
  for (std::uint64_t i = 0; i < kSize / 4; ++i) ++per_sixteenth[permutation.at(i) * 16 / kSize];
  for (std::uint64_t i = 0; i < kSize; ++i) {
    correlation += (static_cast<double>(i) / kSize - 0.5) * (static_cast<double>(permutation.at(i)) / kSize - 0.5);
  }
  for (const int count : per_sixteenth) CHECK(count == doctest::Approx(64).epsilon(0.5));
  CHECK(std::abs(correlation / kSize * 12) < 0.06);
}

TEST_CASE("a short last step is split in proportion to the shares, by largest remainder") {
  const auto split = [](std::uint64_t total, std::vector<std::uint32_t> shares) {
    return split_by_shares(total, shares);
  };
  using Parts = std::vector<std::uint64_t>;
  CHECK(split(96, {32, 32, 32}) == Parts{32, 32, 32});
  CHECK(split(10, {32, 32, 32}) == Parts{4, 3, 3});
  CHECK(split(1, {32, 32}) == Parts{1, 0});
  CHECK(split(7, {10, 20, 40}) == Parts{1, 2, 4});
  CHECK(split(8, {10, 20, 40}) == Parts{1, 2, 5});
  CHECK(split(5, {0, 10}) == Parts{0, 5});
  CHECK(split(4'000'000'000'000'000, {4'000'000'000, 4'000'000'000}) ==
        Parts{2'000'000'000'000'000, 2'000'000'000'000'000});
}

std::vector<std::uint32_t> random_shares(std::mt19937& random) {
  std::vector<std::uint32_t> shares(1 + random() % 6, 0);
  for (auto& share : shares) share = random() % 4 == 0 ? 0 : 1 + random() % 40;
  shares[0] = std::max(shares[0], 1U);
  return shares;
}

// Runs an epoch sequence with shares that change at random steps and parts that do not count now and then; returns how
// often each position counted.
std::vector<int> count_uses(std::uint64_t sample_count, std::uint64_t epochs, unsigned seed, bool failures) {
  std::mt19937 random(seed);
  std::vector<int> uses(sample_count);
  std::vector<std::uint32_t> shares{8, 8};
  SamplerState state{.seed = 1};
  while (state.epoch < epochs) {
    if (random() % 3 == 0) shares = random_shares(random);
    const Cut cut = cut_step(state, sample_count, shares);
    REQUIRE(std::accumulate(cut.counts.begin(), cut.counts.end(), std::uint64_t{0}) == cut.total);
    REQUIRE(cut.total > 0);
    std::vector<Interval> uncounted;
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      const auto part = cut.part(rank);
      CHECK(count_of(part) == cut.count(rank));
      if (failures && random() % 4 == 0) {
        uncounted.insert(uncounted.end(), part.begin(), part.end());
        continue;
      }
      for (const auto& [first, count] : part) {
        for (std::uint64_t i = 0; i < count; ++i) ++uses.at(first + i);
      }
    }
    state = advance(state, sample_count, cut, uncounted);
  }
  CHECK(state.returned.empty());
  return uses;
}

TEST_CASE("every position of every epoch is used exactly once through random changes and losses") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    const std::uint64_t samples = 1 + seed * 37;
    CHECK(count_uses(samples, 3, seed, false) == std::vector<int>(samples, 3));
    CHECK(count_uses(samples, 3, seed, true) == std::vector<int>(samples, 3));
  }
}

TEST_CASE("data without an end is counted and never changes the epoch") {
  const std::vector<std::uint32_t> shares{3, 5};
  SamplerState state;
  for (int step = 0; step < 10; ++step) {
    const Cut cut = cut_step(state, 0, shares);
    CHECK(cut.total == 8);
    CHECK(cut.count(1) == 5);
    state = advance(state, 0, cut);
  }
  CHECK(state.epoch == 0);
  CHECK(state.cursor == 80);
}

using Intervals = std::vector<Interval>;

TEST_CASE("returned samples are taken first, lowest first, then the cursor advances") {
  const SamplerState state{.cursor = 50, .returned = {{10, 4}, {20, 3}}};
  const std::vector<std::uint32_t> shares{5, 5};
  const Cut cut = cut_step(state, 100, shares);
  CHECK(cut.pieces == Intervals{{10, 4}, {20, 3}, {50, 3}});
  CHECK(cut.part(0) == Intervals{{10, 4}, {20, 1}});
  CHECK(cut.part(1) == Intervals{{21, 2}, {50, 3}});
  CHECK(advance(state, 100, cut) == SamplerState{.cursor = 53});
}

TEST_CASE("a step smaller than what was returned leaves the rest of it for the next") {
  const SamplerState state{.cursor = 50, .returned = {{10, 4}, {20, 3}}};
  const std::vector<std::uint32_t> shares{6};
  const Cut cut = cut_step(state, 100, shares);
  CHECK(cut.fresh == 0);
  CHECK(advance(state, 100, cut) == SamplerState{.cursor = 50, .returned = {{22, 1}}});
}

TEST_CASE("what a step took and what did not count of it merge with neighbours") {
  const SamplerState state{.cursor = 50, .returned = {{40, 4}, {46, 2}}};
  const std::vector<std::uint32_t> shares{4, 4};
  const Cut cut = cut_step(state, 100, shares);
  CHECK(cut.part(1) == Intervals{{46, 2}, {50, 2}});
  CHECK(advance(state, 100, cut, cut.part(1)) == SamplerState{.cursor = 52, .returned = {{46, 2}, {50, 2}}});
  CHECK(advance(state, 100, cut, cut.part(0)) == SamplerState{.cursor = 52, .returned = {{40, 4}}});
  CHECK(merge(Intervals{{1, 2}, {7, 3}}, Intervals{{3, 4}, {0, 1}}) == Intervals{{0, 10}});
}

TEST_CASE("an epoch is not over before its returned samples are used") {
  SamplerState state{.cursor = 92};
  const std::vector<std::uint32_t> both{8, 8};
  const Cut last = cut_step(state, 100, both);
  CHECK(last.total == 8);
  state = advance(state, 100, last, last.part(1));
  CHECK(state == SamplerState{.cursor = 100, .returned = {{96, 4}}});
  const Cut rest = cut_step(state, 100, both);
  CHECK(rest.pieces == Intervals{{96, 4}});
  CHECK(rest.counts == std::vector<std::uint64_t>{2, 2});
  CHECK(advance(state, 100, rest) == SamplerState{.epoch = 1});
}

}  // namespace
}  // namespace elastictrain::state
