#include "heuristics/sweep/search_space.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace elastictrain::heuristics::sweep;

namespace {

const std::vector<Parameter> kGrid = {{"rate", {"0.1", "0.01"}, {}}, {"width", {"8", "16", "32"}, {}}};
const Parameter kLog = {"rate", {}, Range{.low = 1e-4, .high = 1, .is_log = true}};
const Parameter kWhole = {"width", {}, Range{.low = 2, .high = 5, .is_whole = true}};

}  // namespace

TEST_CASE("a grid is all combinations, the last parameter changing fastest") {
  CHECK(grid_size(kGrid, 100) == 6);
  CHECK(grid_size(kGrid, 4) == 5);
  CHECK_FALSE(grid_size({kLog}, 100).has_value());
  const auto all = grid(kGrid);
  REQUIRE(all.size() == 6);
  CHECK(all[0] == Assignment{{"rate", "0.1"}, {"width", "8"}});
  CHECK(all[1] == Assignment{{"rate", "0.1"}, {"width", "16"}});
  CHECK(all[5] == Assignment{{"rate", "0.01"}, {"width", "32"}});
}

TEST_CASE("draws differ from each other, and are those of their seed") {
  const auto drawn = draw(kGrid, 4, 7);
  CHECK(drawn.size() == 4);
  CHECK(std::set(drawn.begin(), drawn.end()).size() == 4);
  CHECK(drawn == draw(kGrid, 4, 7));
  CHECK(drawn != draw(kGrid, 4, 8));
}

TEST_CASE("a space without so many combinations gives all that it has") {
  CHECK(draw(kGrid, 20, 1) == grid(kGrid));
  CHECK(draw({kWhole}, 20, 1).size() == 4);  // 2, 3, 4 and 5
}

TEST_CASE("a range of logarithms has as many draws in each power of ten") {
  int below = 0;
  for (const auto& one : draw({kLog}, 400, 3)) {
    const double rate = std::stod(one[0].second);
    CHECK(rate >= 1e-4);
    CHECK(rate <= 1);
    below += rate < 1e-2 ? 1 : 0;
  }
  CHECK(below > 160);
  CHECK(below < 240);
}
