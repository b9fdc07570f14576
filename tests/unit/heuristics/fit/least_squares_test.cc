#include "heuristics/fit/least_squares.h"

#include <doctest/doctest.h>

#include <cmath>

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;

TEST_CASE("a symmetric system is solved, and one that is not positive definite is refused") {
  // (4 2; 2 3) x = (10; 8): x = (7/4, 3/2).
  const auto x = solve_positive_definite({{4, 2}, {2, 3}}, {10, 8});
  REQUIRE(x);
  CHECK((*x)[0] == Approx(1.75));
  CHECK((*x)[1] == Approx(1.5));
  CHECK_FALSE(solve_positive_definite({{1, 2}, {2, 1}}, {1, 1}));
  const auto l = cholesky({{4, 2}, {2, 3}});
  REQUIRE(l);
  CHECK((*l)[1][0] == Approx(1));
  CHECK((*l)[1][1] == Approx(std::sqrt(2.0)));
  CHECK((*l)[0][1] == 0);
}

TEST_CASE("linear least squares gives the line through points, and the mean error is shared") {
  const auto line = linear_least_squares({{1, 0}, {1, 1}, {1, 2}}, {1, 3, 5}, {1, 1, 1});
  CHECK(line[0] == Approx(1));
  CHECK(line[1] == Approx(2));
  // y = 0, 0, 3 at x = 0, 1, 2: slope 1.5, intercept -0.5.
  const auto fitted = linear_least_squares({{1, 0}, {1, 1}, {1, 2}}, {0, 0, 3}, {1, 1, 1});
  CHECK(fitted[0] == Approx(-0.5));
  CHECK(fitted[1] == Approx(1.5));
  // With all the weight on the first two points it is flat.
  CHECK(linear_least_squares({{1, 0}, {1, 1}, {1, 2}}, {0, 0, 3}, {1, 1, 1e-6})[1] == Approx(0).epsilon(0.001));
}

TEST_CASE("columns that nothing tells apart share what there is to explain") {
  const auto one_point = linear_least_squares({{1, 10}}, {4}, {1});
  CHECK(one_point[0] + 10 * one_point[1] == Approx(4));
  CHECK(one_point[0] == Approx(2));
  CHECK(linear_least_squares({}, {}, {}).empty());
}

TEST_CASE("nonlinear least squares finds the minimum of Rosenbrock's valley") {
  const auto found = least_squares(
      [](const Vector& x) {
        return Vector{10 * (x[1] - x[0] * x[0]), 1 - x[0]};
      },
      {-1.2, 1}, {{-10, -10}, {10, 10}}, 200);
  CHECK(found.at[0] == Approx(1).epsilon(1e-4));
  CHECK(found.at[1] == Approx(1).epsilon(1e-4));
}

TEST_CASE("a bound in the way is where the search ends, and the others are still fitted") {
  // (x - 3)^2 + (x + y - 4)^2 with x <= 2: x = 2, y = 2.
  const auto found = least_squares(
      [](const Vector& x) {
        return Vector{x[0] - 3, x[0] + x[1] - 4};
      },
      {0, 0}, {{-5, -5}, {2, 5}});
  CHECK(found.at[0] == 2);
  CHECK(found.at[1] == Approx(2).epsilon(1e-5));
  CHECK(found.value == Approx(0.5));
  // An unknown without room stays.
  const auto fixed = least_squares(
      [](const Vector& x) {
        return Vector{x[0] - 3, x[1] - 4};
      },
      {1, 0}, {{1, -5}, {1, 5}});
  CHECK(fixed.at[0] == 1);
  CHECK(fixed.at[1] == Approx(4));
}

TEST_CASE("an exponential is recovered from its values") {
  const auto residuals = [](const Vector& p) {
    Vector r;
    for (int i = 0; i < 10; ++i) r.push_back(p[0] * std::exp(-p[1] * i) - 3 * std::exp(-0.4 * i));
    return r;
  };
  const auto found = least_squares(residuals, {1, 1}, {{0, 0}, {100, 10}});
  CHECK(found.at[0] == Approx(3).epsilon(1e-4));
  CHECK(found.at[1] == Approx(0.4).epsilon(1e-4));
}

TEST_CASE("the simplex finds minima that are not sums of squares, also on a bound") {
  const auto cone =
      nelder_mead([](const Vector& x) { return std::hypot(x[0] - 1, x[1] + 2); }, {5, 5}, {{-10, -10}, {10, 10}}, 0.5);
  CHECK(cone.value < 1e-5);
  const auto bounded =
      nelder_mead([](const Vector& x) { return std::abs(x[0] - 3) + std::abs(x[1]); }, {0, 1}, {{-1, -1}, {2, 1}});
  CHECK(bounded.at[0] == Approx(2));
  CHECK(std::abs(bounded.at[1]) < 1e-4);
}

}  // namespace
}  // namespace elastictrain::heuristics
