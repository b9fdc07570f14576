// Which checkpoints count, and which may be removed.
#include "train/checkpoint/lineage.h"

#include <doctest/doctest.h>

namespace elastictrain::checkpoint {

doctest::String toString(const std::vector<Identity>& list) {
  std::string text;
  for (const auto& one : list) text += "(" + std::to_string(one.generation) + ", " + std::to_string(one.step) + ") ";
  return text.c_str();
}

namespace {

using Identities = std::vector<Identity>;

TEST_CASE("a checkpoint counts as long as no later generation began at its step or before") {
  const Lineage lineage{{1, 1}, {2, 41}, {4, 60}};
  CHECK_FALSE(is_fenced_out({1, 40}, lineage));
  CHECK(is_fenced_out({1, 41}, lineage));
  CHECK(is_fenced_out({1, 60}, lineage));
  CHECK_FALSE(is_fenced_out({2, 59}, lineage));
  CHECK(is_fenced_out({2, 60}, lineage));
  CHECK(is_fenced_out({3, 1000}, lineage));
  CHECK_FALSE(is_fenced_out({4, 60}, lineage));
  CHECK_FALSE(is_fenced_out({9, 1}, lineage));
}

TEST_CASE("a worker that was cut off writes later steps than the survivors have, and is not taken") {
  // Generation 3 continued from step 50 without it; it had committed step 51 and writes that.
  const Lineage lineage{{3, 51}};
  CHECK(newest_first(Identities{{2, 40}, {2, 50}, {2, 51}}, lineage) == Identities{{2, 50}, {2, 40}});
}

TEST_CASE("the generation counts more than the step") {
  // All was lost; generation 5 began again at step 20.
  CHECK(newest_first(Identities{{2, 19}, {2, 90}, {5, 30}, {5, 20}}, Lineage{{5, 20}}) ==
        Identities{{5, 30}, {5, 20}, {2, 19}});
}

TEST_CASE("merging keeps the informative entries, sorted, and the stricter of two that disagree") {
  CHECK(merge(Lineage{{2, 10}, {7, 30}}, Lineage{{5, 20}, {2, 10}}) == Lineage{{2, 10}, {5, 20}, {7, 30}});
  // Generation 6 returns to step 5: it also fences out what 2 and 4 fence out.
  CHECK(merge(Lineage{{2, 10}, {4, 20}}, Lineage{{6, 5}}) == Lineage{{6, 5}});
  CHECK(merge(Lineage{{2, 10}}, Lineage{{2, 8}}) == Lineage{{2, 8}});
}

TEST_CASE("merging never lets a checkpoint count that a part fenced out") {
  std::uint64_t seed = 1;
  const auto random = [&](std::uint64_t below) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (seed >> 33) % below;
  };
  for (int round = 0; round < 500; ++round) {
    Lineage a;
    Lineage b;
    for (int i = 0; i < 6; ++i) (i % 2 == 0 ? a : b).push_back({random(10), random(20)});
    const auto both = merge(a, b);
    for (Generation generation = 0; generation < 10; ++generation) {
      for (Step step = 0; step < 20; ++step) {
        const Identity one{generation, step};
        CHECK(is_fenced_out(one, both) == (is_fenced_out(one, a) || is_fenced_out(one, b)));
      }
    }
  }
}

TEST_CASE("a lineage of a very long run stays small and keeps its newest fences") {
  Lineage lineage;
  for (Generation generation = 1; generation <= 5000; ++generation) lineage.push_back({generation, generation * 10});
  const auto merged = merge(lineage, {});
  CHECK(merged.size() == 256);
  CHECK(merged.back() == Fence{5000, 50'000});
}

TEST_CASE("the newest that count are kept, and what is fenced out goes") {
  const Identities found{{1, 10}, {1, 20}, {1, 30}, {2, 40}, {2, 50}, {4, 45}};
  const Lineage lineage{{4, 41}};
  CHECK(removable(found, lineage, 3, 0) == Identities{{1, 20}, {1, 10}, {2, 50}});
  CHECK(removable(found, lineage, 0, 0) == Identities{{2, 40}, {1, 30}, {1, 20}, {1, 10}, {2, 50}});
}

TEST_CASE("the only one that counts is never removed, and nothing where none counts") {
  CHECK(removable(Identities{{1, 10}}, {}, 1, 0) == Identities{});
  CHECK(removable(Identities{{1, 10}, {1, 20}}, Lineage{{2, 5}}, 1, 0) == Identities{});
}

TEST_CASE("files of an earlier run stay, unless this run continues from them") {
  // Generations up to 7 belong to an earlier run; this one began at step 1 again.
  CHECK(removable(Identities{{7, 900}, {8, 10}, {8, 20}}, Lineage{{8, 1}}, 1, 7) == Identities{{8, 10}});
  // This one continued from step 900.
  CHECK(removable(Identities{{7, 800}, {7, 900}, {8, 910}}, Lineage{{8, 901}}, 2, 7) == Identities{{7, 800}});
}

TEST_CASE("the supervisor's lineage is read from the environment") {
  CHECK(*parse_lineage("") == Lineage{});
  CHECK(*parse_lineage("1:1,5:100,18446744073709551615:7") == Lineage{{1, 1}, {5, 100}, {~0ULL, 7}});
  for (const char* wrong : {"1", "1:", ":1", "1:2:3", "a:1", "1:-2", ",1:2", "1:2,,3:4", "99999999999999999999:1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_lineage(wrong).ok());
  }
}

}  // namespace
}  // namespace elastictrain::checkpoint
