#include "cli/commands/plan/size_plan.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "supervisor/policy/view_json.h"

namespace elastictrain::cli {
namespace {

using doctest::Approx;

std::string wrong(std::string_view table) {
  const auto profile = profile_of_table(table, "t.csv");
  REQUIRE_FALSE(profile.ok());
  CHECK(profile.error().code == ErrorCode::kInvalid);
  return profile.error().message;
}

RunConfig config_with(std::initializer_list<std::pair<const std::string, heuristics::Value>> settings) {
  RunConfig config;
  config.policy.parameters["scavenger"] = settings;
  config.policy.samples_total = 3'600'000;
  return config;
}

// Computes 0.1 s; all the rest is the network's.
JobProfile table_of_four() {
  auto profile = profile_of_table("workers,batch,step_s\n1,100,0.1\n2,100,0.11\n4,100,0.16\n8,100,0.4\n", "t.csv");
  REQUIRE(profile.ok());
  return std::move(*profile);
}

TEST_CASE("a table is CSV with named columns in any order, or a list of objects") {
  const auto csv =
      profile_of_table("# K80\nbatch, workers ,step_s,steps\n\n32,1,0.5,10\r\n32,4,0.75,20\n32,4,1.05,10", "t.csv");
  REQUIRE(csv.ok());
  const auto points = csv->measured.points();
  REQUIRE(points.size() == 2);
  CHECK(points[0].seconds == 0.5);
  CHECK(points[1].workers == 4);
  CHECK(points[1].seconds == Approx(0.85));  // (20 * 0.75 + 10 * 1.05) / 30
  CHECK(csv->measured.steps_at({4, 32}) == 30);
  const auto list = profile_of_table(R"([{"workers":2,"batch":16,"step_s":0.25}])", "t.json");
  REQUIRE(list.ok());
  CHECK(list->measured.points()[0].seconds == 0.25);
}

// 100 samples of one worker with a noise scale of 100: gamma is 1 and, with 400 samples, half of that.
TEST_CASE("with a theta epochs follow from the SGD noise of the given noise scale") {
  auto profile = profile_of_table("workers,batch,step_s\n1,100,0.1\n2,100,0.1\n4,100,0.1\n", "t.csv");
  REQUIRE(profile.ok());
  const RunConfig config =
      config_with({{"goal", std::string("fastest")}, {"epochs", std::string("sgd-noise")}, {"theta", -0.5}});
  const auto plan = make_size_plan(*profile, config, std::nullopt, 100);
  REQUIRE(plan.ok());
  CHECK(*plan->sgd_noise == Approx(1));
  const auto& points = plan->curve.points;
  REQUIRE(points.size() == 4);
  CHECK(points[0].epochs == Approx(1));
  CHECK(points[3].epochs == Approx(1.5));  // (1 - 0.5 * 0.5) / (1 - 0.5 * 1)
  CHECK(nlohmann::json::parse(render_plan_json(*plan))["sgd_noise"] == 1);
}

TEST_CASE("after a full search the plan says which sizes were not measured") {
  const auto missing = [](const char* search) {
    const auto plan = make_size_plan(table_of_four(), config_with({{"search", std::string(search)}}), std::nullopt, {});
    REQUIRE(plan.ok());
    for (const std::string& note : plan->notes) {
      if (note.find("Not measured") == 0) return note;
    }
    return std::string();
  };
  CHECK(missing("full") == "Not measured: 3, 5 to 7 workers; their steps are predicted.");
  CHECK(missing("partial").empty());
}

TEST_CASE("errors in a table name the line") {
  CHECK(wrong("workers,batch\n1,2\n").find("t.csv:1: there must be exactly one column step_s") == 0);
  CHECK(wrong("workers,batch,time\n").find("t.csv:1: 'time' is not a column") == 0);
  CHECK(wrong("workers,batch,step_s\n1,2\n").find("t.csv:2: 2 values for 3 columns") == 0);
  CHECK(wrong("workers,batch,step_s\n\n1,2,x\n").find("t.csv:3: step_s 'x' is not a number") == 0);
  CHECK(wrong("workers,batch,step_s\n1.5,2,1\n").find("t.csv:2: workers must be a whole number") == 0);
  CHECK(wrong("workers,batch,step_s\n1,2,0\n").find("t.csv:2: step_s must be seconds, more than 0") == 0);
  CHECK(wrong("workers,batch,step_s\n1,2,1e308\n").find("t.csv:2: step_s must be seconds, more than 0 and at most") ==
        0);
  CHECK(wrong("workers,batch,step_s\n1,2,nan\n").find("t.csv:2: step_s must be seconds") == 0);
  CHECK(wrong("workers,batch,step_s,steps\n1,2,1,inf\n").find("t.csv:2: steps must be more than 0 and at most") == 0);
  CHECK(wrong("[{\"workers\":2}]").find("t.csv: entry 1: batch must be") == 0);
  CHECK(wrong("[{\"worker\":2}]").find("t.csv: entry 1: there is no 'worker'") == 0);
  CHECK(wrong("[1]").find("t.csv: entry 1: it must be an object") == 0);
  CHECK(wrong("{}").find("t.csv: there is no \"measured\"") == 0);
  CHECK(wrong("[{").find("t.csv: the file is not valid JSON") == 0);
}

TEST_CASE("a table of too many sizes is refused before anything is fitted") {
  std::string rows = "workers,batch,step_s\n";
  for (int workers = 1; workers <= 20'000; ++workers) rows += std::to_string(workers) + ",32,0.5\n";
  CHECK(wrong(rows).find("t.csv:130: more than 128 different sizes and batches") == 0);
  std::string often = "workers,batch,step_s\n";
  for (int row = 0; row < 20'000; ++row) often += std::to_string(1 + row % 8) + ",32,0.5\n";
  CHECK(profile_of_table(often, "t.csv")->measured.points().size() == 8);
}

TEST_CASE("records of a run become its figures, and what is no view changes nothing") {
  heuristics::ClusterView view;
  view.jobs.resize(1);
  view.jobs[0].intervals = {
      {.begin_s = 0, .end_s = 3, .workers = 2, .steps = 10, .samples = 640, .global_batch = 64, .warm_up = false},
      {.begin_s = 3, .end_s = 9, .workers = 3, .steps = 1, .samples = 96, .global_batch = 96, .warm_up = true}};
  JobProfile profile;
  add_record(profile, core::record::Observed{{policy::to_json(view)}});
  add_record(profile, core::record::Observed{{"{\"jobs\":7}"}});
  add_record(profile, core::record::Decided{.policy = "efficiency"});
  REQUIRE(profile.measured.points().size() == 1);
  CHECK(profile.measured.points()[0].seconds == Approx(0.3));
  CHECK(profile.measured.steps_at({2, 32}) == 10);
  CHECK(profile.last_view.has_value());
}

TEST_CASE("the plan of a table: time, cost and choice by hand") {
  RunConfig config = config_with({{"goal", std::string("fastest")}});
  config.cost.price_per_worker_hour = 2;
  const auto plan = make_size_plan(table_of_four(), config, std::nullopt, std::nullopt);
  REQUIRE(plan.ok());
  const auto& points = plan->curve.points;
  REQUIRE(points.size() == 8);
  CHECK(points[3].measured);
  CHECK_FALSE(points[2].measured);
  CHECK(points[3].seconds == Approx(3.6e6 / 400 * 0.16));              // 1440 s
  CHECK(points[3].cost == Approx(3.6e6 / 400 * 0.16 / 3600 * 4 * 2));  // 3.2
  CHECK(points[0].seconds == Approx(3600));
  CHECK(points[0].cost == Approx(2));
  CHECK(plan->curve.choice.limit_met);
  CHECK(plan->notes.empty());
  for (const auto& point : points) CHECK(points[*plan->curve.choice.point].seconds <= point.seconds);
}

TEST_CASE("a deadline that no size meets is reported, and one without a length of the job is refused") {
  RunConfig config = config_with({{"goal", std::string("deadline")}, {"deadline_s", 60.0}});
  const auto plan = make_size_plan(table_of_four(), config, std::nullopt, std::nullopt);
  REQUIRE(plan.ok());
  CHECK_FALSE(plan->curve.choice.limit_met);
  config.policy.samples_total = 0;
  const auto endless = make_size_plan(table_of_four(), config, std::nullopt, std::nullopt);
  REQUIRE_FALSE(endless.ok());
  CHECK(endless.error().message.find("--samples N") != std::string::npos);
}

TEST_CASE("one size is too little, but for a guess") {
  const auto one = profile_of_table("workers,batch,step_s\n4,32,0.2\n", "t.csv");
  RunPlan sizes;
  sizes.settings.min_workers = 1;
  sizes.settings.max_workers = 8;
  const auto refused = make_size_plan(*one, config_with({}), sizes, std::nullopt);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kUnavailable);
  CHECK(refused.error().message.find("only one size was measured, 4 workers") == 0);
  const auto guessed = make_size_plan(*one, config_with({{"search", std::string("universal")}}), sizes, std::nullopt);
  REQUIRE(guessed.ok());
  CHECK(guessed->curve.points.size() == 8);
  CHECK_FALSE(make_size_plan(JobProfile{}, config_with({}), sizes, std::nullopt).ok());
}

TEST_CASE("batches are compared where the noise scale is known, and only then") {
  auto profile = profile_of_table("workers,batch,step_s\n1,32,0.1\n1,64,0.12\n4,32,0.15\n4,64,0.17\n", "t.csv");
  RunConfig config = config_with({});
  config.cost.price_per_worker_hour = 1;
  const auto batches = [&](std::optional<double> noise_scale) {
    const auto plan = make_size_plan(*profile, config, std::nullopt, noise_scale);
    REQUIRE(plan.ok());
    std::set<std::uint32_t> found;
    for (const auto& point : plan->curve.points) found.insert(point.local_batch);
    CHECK(plan->notes.empty() == noise_scale.has_value());
    return found;
  };
  CHECK(batches(std::nullopt) == std::set<std::uint32_t>{32});
  CHECK(batches(500) == std::set<std::uint32_t>{32, 64});
}

TEST_CASE("what plan --json prints is a table, too") {
  RunConfig config = config_with({});
  const auto plan = make_size_plan(table_of_four(), config, std::nullopt, 640);
  const std::string json = render_plan_json(*plan);
  const auto again = profile_of_table(json, "plan.json");
  REQUIRE(again.ok());
  CHECK(again->noise_scale == 640);
  CHECK(again->measured.points().size() == 4);
  const auto parsed = nlohmann::json::parse(json);
  CHECK(parsed["points"].size() == 8);
  CHECK(parsed["choice"]["is"][0] == "chosen");
  const std::string text = render_plan(*plan, 80, true);
  CHECK(text.find("noise scale is 640") != std::string::npos);
}

}  // namespace
}  // namespace elastictrain::cli
