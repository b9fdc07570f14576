#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/commands/cluster/sweep_program.h"
#include "cli/commands/cluster/sweep_state.h"
#include "cli/config/sweep_file.h"
#include "cli/output/cluster_text.h"

using namespace elastictrain::cli;

namespace {

constexpr const char* kFile = R"(
name = "rates"
config = "job.toml"
arguments = ["--set", "trainer.learning_rate={lr}", "--label={lr}-{kind}"]
metric = "accuracy"
goal = "max"
[parameters]
lr = [0.1, 1e-5]
kind = ["a", true, 3, 4.0]
)";

SweepFile good(const std::string& text) {
  auto read = read_sweep_file(text, "sweep.toml");
  REQUIRE(std::holds_alternative<SweepFile>(read));
  return std::get<SweepFile>(read);
}

std::string mistakes(const std::string& text) {
  const auto read = read_sweep_file(text, "sweep.toml");
  if (std::holds_alternative<SweepFile>(read)) return "";
  std::string all;
  for (const auto& one : std::get<SweepFileError>(read).messages) all += one + "\n";
  return all;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a sweep's trials are its grid, with the values in the words") {
  const auto trials = trials_of(good(kFile));
  REQUIRE(trials.size() == 8);
  CHECK(trials[0].name == "rates-1");
  CHECK(trials[0].words == std::vector<std::string>{"job.toml", "--set", "trainer.learning_rate=0.1", "--label=0.1-a"});
  // Parameters are in the order of their names.
  CHECK(trials[1].words.back() == "--label=1e-05-a");
  CHECK(trials[4].words.back() == "--label=0.1-3");
  CHECK(trials[3].words.back() == "--label=1e-05-true");
  CHECK(trials[6].words.back() == "--label=0.1-4.0");
}

TEST_CASE("a value that looks like another parameter's place stays what it is") {
  const auto trials = trials_of(good(R"(name = "x"
arguments = ["{a}", "{b}"]
metric = "m"
goal = "min"
parameters = {a = ["{a}x"], b = [1]})"));
  CHECK(trials[0].words == std::vector<std::string>{"{a}x", "1"});
  const auto swapped = trials_of(good(R"(name = "x"
arguments = ["--out={trial}/{b}{a}", "{c}"]
metric = "m"
goal = "min"
parameters = {a = ["{b}"], b = ["{trial}"]})"));
  CHECK(swapped[0].words == std::vector<std::string>{"--out=x-1/{trial}{b}", "{c}"});
}

TEST_CASE("mistakes in a sweep are told with their places") {
  CHECK(has(mistakes("nam = \"x\""), "sweep.toml:1:1: unknown key \"nam\"; did you mean \"name\"?"));
  CHECK(has(mistakes(std::string(kFile) + "size = [1]\n"), "parameters.size is used nowhere: write {size} into"));
  CHECK(has(mistakes("trials = 0\n"), "trials must be a whole number from 1 to 1000"));
  CHECK(has(mistakes("goal = \"high\"\n"), "goal must be \"max\" or \"min\""));
  CHECK(has(mistakes("metric = \"a\"\npattern = \"(b)\"\n"), "give either metric"));
  CHECK(has(mistakes("pattern = \"(b\"\n"), "pattern is no regular expression"));
  CHECK(has(mistakes("pattern = \"b\"\n"), "pattern needs a group"));
  CHECK(has(mistakes("[parameters]\ntrial = [1, 2]\n"), "{trial} is the name of the trial"));
  CHECK(has(mistakes("[parameters]\na = [1, 1.5, 1]\n"), "parameters.a has 1 twice"));
  CHECK(has(mistakes("[parameters]\na = {low = 2, high = 1}\n"), "needs low and high, and high above low"));
  CHECK(has(mistakes("[parameters]\na = {low = -1, high = 1, scale = \"log\"}\n"), "low must be above 0"));
  CHECK(has(mistakes("[parameters]\na = {low = nan, high = 1}\n"), "low must be a number"));
  CHECK(has(mistakes("[parameters]\na = {low = 0, high = 1}\n"), "trials is missing"));
  CHECK(has(mistakes("[stop]\nfactor = 1\n"), "stop.factor must be a whole number from 2"));
  CHECK(has(mistakes("[stop]\nrule = \"halving\"\nprogram = [\"x\"]\n"), "instead of stop.rule: give one of them"));
  CHECK(has(mistakes("[stop]\nprogram = \"x\"\n"), "stop.program must be a list of texts"));
  CHECK(has(mistakes("["), "sweep.toml:1"));
}

TEST_CASE("the reports of a trial are its notes of the metric, or the numbers in the lines of rank 0") {
  SweepReports notes(good(kFile));
  notes.take_event(R"({"event": "note", "worker": 1, "key": "accuracy", "value": "0.5"})");
  notes.take_event(R"({"event": "note", "worker": 1, "key": "loss", "value": "7"})");
  notes.take_event(R"({"event": "note", "worker": 2, "key": "accuracy", "value": "much"})");
  notes.take_event(R"({"event": "note", "key": "accuracy", "value": 3})");
  notes.take_event(R"({"event": "note")");
  REQUIRE(notes.values().size() == 2);
  CHECK(notes.values()[0] == 0.5);
  CHECK(std::isnan(notes.values()[1]));
  SweepFile file = good(kFile);
  file.metric.clear();
  file.pattern = "acc=([^ ]+)";
  SweepReports lines(file);
  lines.take_output("2026-01-31T14:03:05.123 w3 0 hostA out epoch 1 acc=0.25 loss=3");
  lines.take_output("2026-01-31T14:03:05.123 w4 1 hostA out epoch 1 acc=0.75 loss=3");
  lines.take_output("2026-01-31T14:03:05.123 run - - warning acc=0.9");
  lines.take_output("2026-01-31T14:03:05.123 w3 0 hostA err acc=0.5");
  lines.take_output("torn");
  CHECK(lines.values() == std::vector<double>{0.25, 0.5});
}

namespace {

// A run's directory whose output is written and rotated as a run does it.
class Output {
 public:
  Output() : directory_(std::filesystem::temp_directory_path() / ("sweep-test-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(directory_);
  }
  ~Output() { std::filesystem::remove_all(directory_); }

  void say(int value) {
    std::ofstream(directory_ / "output.log", std::ios::app)
        << "2026-01-31T14:03:05.123 w3 0 hostA out acc=" << value << "\n";
  }
  void rotate() { std::filesystem::rename(directory_ / "output.log", directory_ / "output.1.log"); }
  void begin_anew() {
    std::filesystem::remove(directory_ / "output.log");
    std::filesystem::remove(directory_ / "output.1.log");
  }
  std::string directory() const { return directory_; }

 private:
  const std::filesystem::path directory_;
};

SweepFile by_output() {
  SweepFile file = good(kFile);
  file.metric.clear();
  file.pattern = "acc=([^ ]+)";
  return file;
}

}  // namespace

TEST_CASE("a trial's reports are read across rotations of its output") {
  Output output;
  output.say(1);
  output.rotate();
  output.say(2);
  SweepReports reports(by_output());
  CHECK_FALSE(reports.read(output.directory()));
  CHECK(reports.values() == std::vector<double>{1, 2});
  output.say(3);
  output.rotate();
  output.say(4);
  output.rotate();  // the second time since it was read
  output.say(5);
  CHECK_FALSE(reports.read(output.directory()));
  CHECK(reports.values() == std::vector<double>{1, 2, 3, 4, 5});
  output.begin_anew();
  CHECK_FALSE(reports.read(output.directory()));
  output.say(7);
  CHECK(reports.read(output.directory()));
  CHECK(reports.values() == std::vector<double>{7});
}

TEST_CASE("a sweep that goes on has the reports of the one before, and those since") {
  Output output;
  const SweepReportFile kept(output.directory() + "/kept.jsonl");
  const auto read_on = [&] {
    SweepReports reports(by_output());
    if (auto known = kept.read(); known.contains("rates-1")) reports.restore(known["rates-1"]);
    const std::size_t before = reports.values().size();
    const bool anew = reports.read(output.directory());
    REQUIRE(kept.add("rates-1", anew ? 0 : before, {reports.values(), reports.place()}).ok());
    return reports.values();
  };
  output.say(1);
  output.say(2);
  CHECK(read_on() == std::vector<double>{1, 2});
  CHECK(read_on() == std::vector<double>{1, 2});
  output.say(3);
  output.rotate();
  output.say(4);
  CHECK(read_on() == std::vector<double>{1, 2, 3, 4});
  output.rotate();
  output.say(5);
  output.rotate();
  output.say(6);
  CHECK(read_on() == std::vector<double>{1, 2, 3, 4, 5, 6});
  std::ofstream(output.directory() + "/kept.jsonl", std::ios::app) << R"({"trial":"rates-1","fi)";
  CHECK(kept.read()["rates-1"].values.size() == 6);
  output.begin_anew();
  output.say(9);
  CHECK(read_on() == std::vector<double>{9});
}

TEST_CASE("the answer of a program that judges trials is checked") {
  SweepView sweep{.name = "rates", .metric = "m", .rule = {}, .trials = {}};
  sweep.trials.push_back({.name = "rates-1", .values = {}, .state = "trains", .trial = {}});
  sweep.trials.push_back({.name = "rates-2", .values = {}, .state = "waits", .trial = {}});
  const auto good_answer =
      read_sweep_answer(R"({"stop": {"rates-2": "a\nb"}, "continue": {"rates-1": "best"}})", sweep);
  REQUIRE(good_answer.ok());
  CHECK(good_answer->stop.at("rates-2").find('\n') == std::string::npos);
  CHECK(good_answer->go_on.at("rates-1") == "best");
  CHECK(read_sweep_answer("{}", sweep)->stop.empty());
  const auto problem = [&](const char* text) { return read_sweep_answer(text, sweep).error().message; };
  CHECK(has(problem("stop rates-1"), "it must be {\"stop\""));
  CHECK(has(problem(R"(["rates-1"])"), "it must be {\"stop\""));
  CHECK(has(problem(R"({"stop": ["rates-1"]})"), "stop must be an object"));
  CHECK(has(problem(R"({"stop": {"rates-3": "x"}})"), "stop names rates-3, which is no trial"));
  CHECK(has(problem(R"({"stop": {"rates-1": 7}})"), "stop.rates-1 must be a text"));
  CHECK(has(problem(R"({"end": {}})"), "it has end; there are stop and continue"));
  CHECK(
      has(problem(R"({"stop": {"rates-1": ""}, "continue": {"rates-1": ""}})"), "both stop and continue name rates-1"));
}

TEST_CASE("a sweep is shown with its best trial first") {
  SweepView sweep{.name = "rates", .metric = "accuracy", .rule = {}, .trials = {}};
  sweep.trials.push_back(
      {.name = "rates-1", .values = {{"lr", "0.1"}}, .state = "stopped", .trial = {{0.5}}, .why = "worse"});
  sweep.trials.push_back({.name = "rates-2", .values = {{"lr", "1"}}, .state = "waits", .trial = {}});
  sweep.trials.push_back(
      {.name = "rates-3", .values = {{"lr", "2"}}, .state = "trains", .trial = {{0.25, 0.75}}, .slots = 2});
  CHECK(render_sweep(sweep, {}) ==
        "sweep rates: 3 trials, 1 stopped, 1 trains, 1 waits\n"
        "best: rates-3 (accuracy 0.75; lr = 2)\n"
        "trial     lr  best  last  reports  state    slots  why\n"
        "rates-3    2  0.75  0.75        2  trains       2\n"
        "rates-1  0.1   0.5   0.5        1  stopped         worse\n"
        "rates-2    1                    0  waits\n");
  CHECK(sweep_json(sweep)["trials"][0]["reports"] == nlohmann::json({0.25, 0.75}));
  sweep.trials = {{.name = "rates-1", .values = {}, .state = "trains", .trial = {{std::nan("")}}}};
  CHECK_FALSE(best_trial(sweep).has_value());
  CHECK(sweep_json(sweep)["trials"][0]["reports"][0].is_null());
}
