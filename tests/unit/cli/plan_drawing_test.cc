#include "cli/output/plan_drawing.h"

#include <doctest/doctest.h>

#include <cmath>

#include "cli/output/table.h"

namespace elastictrain::cli {
namespace {

using heuristics::Goal;
using heuristics::PlanCurve;

PlanCurve example() {
  return heuristics::plan_curve(
      {{.workers = 1, .local_batch = 32, .step_s = 0.2, .seconds = 36000, .cost = 10, .measured = true},
       {.workers = 4, .local_batch = 32, .step_s = 0.22, .seconds = 9900, .cost = 11},
       {.workers = 8, .local_batch = 32, .step_s = 0.4, .seconds = 9000, .cost = 20},
       {.workers = 16, .local_batch = 32, .step_s = 0.9, .seconds = 10100, .cost = 45}},
      {Goal::kKnee, 0}, "$");
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_CASE("an axis is logarithmic over more than a factor of ten, and has ticks at round values") {
  const PlanAxis linear({10, 20, 50});
  CHECK_FALSE(linear.logarithmic());
  CHECK(linear.position(30) == doctest::Approx(0.5));
  CHECK(linear.ticks() == std::vector<double>{10, 20, 30, 40, 50});
  const PlanAxis wide({1, 100});
  CHECK(wide.logarithmic());
  CHECK(wide.position(10) == doctest::Approx(0.5));
  CHECK(wide.ticks() == std::vector<double>{1, 2, 5, 10, 20, 50, 100});
  for (const auto& values : std::vector<std::vector<double>>{{0.013, 0.019}, {7, 7}, {0, 0}, {3, 4e5}, {997, 1003}}) {
    const PlanAxis axis(values);
    const auto ticks = axis.ticks();
    CHECK(ticks.size() >= 2);
    CHECK(ticks.size() <= 10);
    for (const double tick : ticks) CHECK((axis.position(tick) >= 0 && axis.position(tick) <= 1));
  }
}

TEST_CASE("values that are near each other have an axis from 0, on which their difference looks as small as it is") {
  const PlanAxis near({997, 1003});
  CHECK(near.ticks().front() == 0);
  CHECK(near.position(1003) - near.position(997) < 0.01);
  CHECK(PlanAxis({10, 21}).ticks().front() == 10);
}

TEST_CASE("values that are equal but for rounding have an axis of a few ticks") {
  const double cost = 8.6805555555555571;
  for (const double other : {cost, std::nextafter(cost, 9), cost * (1 + 1e-12), cost * (1 + 1e-7)}) {
    const auto ticks = PlanAxis({cost, other, cost}).ticks();
    CHECK(ticks.size() >= 2);
    CHECK(ticks.size() <= 8);
  }
}

TEST_CASE("the terminal shows the chart, the front and the choice with its reason, no line wider than asked for") {
  const std::string text = plan_text(example(), 60);
  CHECK(count(text, "●") == 1);
  CHECK(text.find("4 workers of 32: 2h 45m, cost 11 is where more time stops saving much") != std::string::npos);
  CHECK(text.find("predicted, chosen") != std::string::npos);
  CHECK(count(text, "measured") == 1);
  CHECK(text.find("16  ") == std::string::npos);  // 16 workers are slower and more expensive than 8
  std::size_t from = 0;
  const std::string drawing = text.substr(0, text.find("workers"));
  for (auto end = drawing.find('\n'); end != std::string::npos; end = drawing.find('\n', from)) {
    CHECK(display_width(drawing.substr(from, end - from)) <= 60);
    from = end + 1;
  }
}

TEST_CASE("SVG is one document whose texts cannot break it") {
  auto curve = example();
  curve.choice.reason.text = "a < b & \"c\"";
  const std::string svg = plan_svg(curve, "job <x>\x01");
  CHECK(svg.rfind("<svg ", 0) == 0);
  CHECK(svg.find("</svg>\n") == svg.size() - 7);
  CHECK(svg.find("job &lt;x&gt; </text>") != std::string::npos);
  CHECK(svg.find("a &lt; b &amp; &quot;c&quot;") != std::string::npos);
  CHECK(count(svg, "<circle ") == 4);
  CHECK(count(svg, "#d62728") == 2);  // fill and stroke of the chosen one
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("an empty plan is drawn with a message") {
  const auto curve = heuristics::plan_curve({}, {}, "");
  CHECK(plan_text(curve, 80) == "no number of workers and batch is allowed\n");
  CHECK(count(plan_svg(curve, "t"), "<circle ") == 0);
}

}  // namespace
}  // namespace elastictrain::cli
