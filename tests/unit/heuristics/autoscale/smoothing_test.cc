#include "heuristics/autoscale/throughput_table.h"

#include <doctest/doctest.h>

#include <cmath>

namespace elastictrain::heuristics {
namespace {

NoisyRate at(std::uint32_t workers, double log_rate, double deviation) {
  return {workers, {log_rate, deviation}};
}

// By hand: sizes 1, e, e^2 would be a distance of 1 apart; here 1, 2, 4: d = ln 2. The only term is the bend
// (y0 - 2 y1 + y2)/d with variance 0.5 d; with y = (0, b, 0) and deviation s each, f1 = b - 2 s^2 B and f0 = f2 = s^2 B
// with B = 2 b / (6 s^2 + 0.5 d^3).
TEST_CASE("a middle that sticks out is drawn towards its neighbours, and they towards it") {
  const double d = std::log(2.0), s = 0.2, b = 0.3;
  const double bend = 2 * b / (6 * s * s + 0.5 * d * d * d);
  const auto smooth = smoothed({at(1, 0, s), at(2, b, s), at(4, 0, s)}, 0);
  CHECK(smooth[1].value == doctest::Approx(b - 2 * s * s * bend));
  CHECK(smooth[0].value == doctest::Approx(s * s * bend));
  CHECK(smooth[2].value == doctest::Approx(s * s * bend));
  CHECK(smooth[1].deviation < s);
}

// The bend 2b/d = 1.44 has a variance of 6 s^2/d^2 = 0.125 from the noise and v d from the curve. A smooth one, v =
// 0.5, gives it a log likelihood of -(ln 0.47 + 2.08/0.47)/2 = -1.83, four times as much -0.90, 16 times -1.05.
TEST_CASE("a peak that noise does not explain is drawn towards its neighbours by less") {
  const double d = std::log(2.0), s = 0.1, b = 0.5;
  const double bend = 2 * b / (6 * s * s + 4 * 0.5 * d * d * d);
  const auto smooth = smoothed({at(1, 0, s), at(2, b, s), at(4, 0, s)}, 0);
  CHECK(smooth[1].value == doctest::Approx(b - 2 * s * s * bend));
  CHECK(smooth[0].value == doctest::Approx(s * s * bend));
}

TEST_CASE("one or two sizes, and a straight line, stay as they are") {
  CHECK(smoothed({}, 0).empty());
  CHECK(smoothed({at(4, 1, 0.1)}, 0)[0].value == doctest::Approx(1));
  CHECK(smoothed({at(4, 1, 0.1), at(9, 7, 0.1)}, 0)[1].value == doctest::Approx(7));
  const auto line = smoothed({at(1, 0, 0.1), at(2, 0.9, 0.3), at(16, 3.6, 0.2)}, 0);
  CHECK(line[1].value == doctest::Approx(0.9));
  CHECK(line[2].value == doctest::Approx(3.6));
}

TEST_CASE("what was measured well stays, and a cut parts the curve") {
  CHECK(smoothed({at(1, 0, 1e-6), at(2, 0.3, 1e-6), at(4, 0, 1e-6)}, 0)[1].value ==
        doctest::Approx(0.3).epsilon(0.001));
  const auto cut = smoothed({at(2, 0, 0.2), at(4, 0.7, 0.2), at(8, 0.1, 0.2), at(16, 0.8, 0.2)}, 4);
  CHECK(cut[1].value == doctest::Approx(0.7));
  CHECK(cut[2].value == doctest::Approx(0.1));
}

}  // namespace
}  // namespace elastictrain::heuristics
