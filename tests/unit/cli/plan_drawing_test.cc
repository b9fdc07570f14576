#include "cli/chart/plan_drawing.h"

#include <doctest/doctest.h>

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

TEST_CASE("the terminal shows the chart, the front and the choice with its reason, no line wider than asked for") {
  const std::string text = plan_text(example(), 60);
  CHECK(count(text, "●") == 2);  // and in the legend
  CHECK(count(text, "  ● chosen\n  o no other is both faster and cheaper\n  · another one is\n") == 1);
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
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("job &lt;x&gt;\\x01</text>") != std::string::npos);
  CHECK(svg.find("a &lt; b &amp; &quot;c&quot;") != std::string::npos);
  CHECK(count(svg, "r=\"4\" cx=") == 4);  // in the legend
  CHECK(count(svg, "<circle ") == 8);
  CHECK(count(svg, "<circle class=\"dot chosen") == 2);
  CHECK(count(svg, ">4: chosen, knee<") == 1);
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("an empty plan is drawn with a message") {
  const auto curve = heuristics::plan_curve({}, {}, "");
  CHECK(plan_text(curve, 80) == "no number of workers and batch is allowed\n");
  CHECK(count(plan_svg(curve, "t"), "<circle ") == 0);
}

}  // namespace
}  // namespace elastictrain::cli
