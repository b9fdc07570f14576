// Purpose: external policies, programs and shared objects: their decisions are applied, and any error keeps the size,
// is reported once, and leaves no process behind.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/policy/external_policy.h"
#include "supervisor/policy/program.h"
#include "supervisor/policy/replay.h"
#include "supervisor/policy/runner.h"
#include "supervisor/policy/view_json.h"
#include "tests/support/contains.h"

namespace elastictrain::policy {
namespace {

constexpr std::chrono::seconds kLimit{60};
constexpr std::uint64_t kNever_ms = 600'000;

core::RunView run_of_two() {
  core::RunView run;
  run.phase = core::RunPhase::kRunning;
  run.generation = 1;
  run.world_size = run.target_size = 2;
  return run;
}

using test::contains;

bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  return std::getline(file, text) && text.find(") Z ") == std::string::npos;
}

// A runner with a shell script as its policy, on a loop of its own.
struct Scene {
  explicit Scene(const std::string& script, std::uint64_t timeout_ms = kNever_ms) {
    ::signal(SIGPIPE, SIG_IGN);  // as the program does
    RunnerSettings settings;
    settings.outside.program = {"sh", "-c", script, "policy"};
    settings.outside.timeout_ms = timeout_ms;
    settings.observer.max_workers = 8;
    runner = std::make_unique<Runner>(settings);
    REQUIRE(
        runner->open(io, {[this] { answered = true; }, [this](const std::string& line) { on_line.push_back(line); }})
            .ok());
  }

  // Calls it at this time, and waits for the answer.
  Considered ask(double now_s) {
    answered = false;
    const auto considered = runner->consider(run_of_two(), now_s);
    REQUIRE(considered.has_value());
    CHECK(view_from_json(considered->observed).ok());
    CHECK_FALSE(considered->is_news);
    return wait();
  }
  Considered wait() {
    run_until([this] { return answered; });
    const auto considered = runner->take_answer(run_of_two());
    REQUIRE(considered.has_value());
    CHECK_FALSE(runner->take_answer(run_of_two()).has_value());
    return *considered;
  }
  void run_until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (!done() && std::chrono::steady_clock::now() < limit) io.run_one_until(limit);
    REQUIRE(done());
  }
  // The script fails at the first view. Returns the messages about it.
  std::string failure_of_first() {
    const Considered considered = ask(1);
    CHECK(considered.is_news);
    CHECK(considered.events.empty());
    CHECK(considered.decision.reason.code == kPolicyFailed);
    CHECK(runner->last_reason().code == kPolicyFailed);
    run_until([this] { return !runner->any_process(); });
    // From now on the size stays, without another message.
    const auto later = runner->consider(run_of_two(), 5);
    REQUIRE(later.has_value());
    CHECK_FALSE(later->is_news);
    CHECK(later->failure.empty());
    CHECK(later->decision.reason.code == kPolicyFailed);
    CHECK(contains(considered.failure, "; the size stays"));
    return considered.failure;
  }

  asio::io_context io;
  bool answered = false;
  std::vector<std::string> on_line;
  std::unique_ptr<Runner> runner;
};

TEST_CASE("a program gets views and its decisions are followed, one at a time") {
  Scene scene(R"(read a; echo '{"jobs":[{"workers":5,"reason":{"code":"grow","text":"it pays"}}]}'
                 read b; echo "two views" >&2; echo '{"jobs":[{"reason":{"code":"settled"}}]}'
                 read c; test -n "$b" && echo '{"jobs":[{}]}'; read d)");
  CHECK_FALSE(scene.runner->is_fixed());
  const Considered first = scene.ask(1);
  CHECK(first.is_news);
  REQUIRE(first.events.size() == 1);
  CHECK(std::get<core::Resize>(first.events[0]).target == 5);
  CHECK(scene.runner->last_reason().text == "it pays");
  const Considered second = scene.ask(3);
  CHECK(second.events.empty());
  CHECK(second.decision.reason.text == "settled");
  scene.run_until([&] { return !scene.on_line.empty(); });
  CHECK(scene.on_line == std::vector<std::string>{"two views"});
  CHECK(scene.ask(5).decision.reason.code == "no_reason");
}

TEST_CASE("no view is sent while the program still thinks, and nothing is lost meanwhile") {
  Scene scene("read a; read b");
  REQUIRE(scene.runner->consider(run_of_two(), 1).has_value());
  CHECK(scene.runner->is_due(9));
  CHECK_FALSE(scene.runner->consider(run_of_two(), 9).has_value());
  CHECK_FALSE(scene.runner->take_answer(run_of_two()).has_value());
}

TEST_CASE("every error of a program is reported once, with its cause") {
  CHECK(contains(Scene("read a; echo rubbish; read b").failure_of_first(),
                 "wrote a line that is not a decision: the decision is not JSON"));
  CHECK(contains(Scene(R"(read a; echo '{"jobs":[]}'; read b)").failure_of_first(), "one entry in jobs"));
  CHECK(contains(Scene(R"(read a; echo '{"jobs":[{"workers":-1}]}'; read b)").failure_of_first(),
                 "\"jobs[0].workers\" must be a whole number"));
  CHECK(contains(Scene("read a; echo no such module >&2; exit 3").failure_of_first(),
                 "ended with exit status 3: no such module"));
  CHECK(contains(Scene("read a; kill -9 $$").failure_of_first(), "ended with signal 9"));
  CHECK(contains(Scene("exec sleep 600", 50).failure_of_first(), "gave no decision within 50.0 ms"));
  CHECK(contains(Scene("trap '' TERM HUP; exec >&-; while :; do sleep 600; done", 50).failure_of_first(),
                 "closed its output"));
  CHECK(contains(Scene("exec cat /dev/zero").failure_of_first(), "wrote a line of more than 4194304 bytes"));
  CHECK(contains(Scene("read a; exec yes rubbish").failure_of_first(), "not a decision"));
}

TEST_CASE("two decisions about one view are one too many") {
  Scene scene(R"(read a; echo '{"jobs":[{}]}'; echo '{"jobs":[{}]}'; read b)");
  REQUIRE(scene.runner->consider(run_of_two(), 1).has_value());
  scene.run_until([&] { return !scene.runner->any_process(); });
  const auto considered = scene.runner->take_answer(run_of_two());
  REQUIRE(considered.has_value());
  CHECK(contains(considered->failure, "wrote a line without a view to answer"));
}

TEST_CASE("a program's decision just before its end still counts") {
  Scene scene(R"(read a; echo '{"jobs":[{"workers":3}]}')");
  REQUIRE(scene.runner->consider(run_of_two(), 1).has_value());
  CHECK(scene.wait().events.size() == 1);
  // Noticed with the next view, whether its end was detected before or after that was sent.
  std::string failure;
  scene.run_until([&] {
    auto later = scene.runner->take_answer(run_of_two());
    if (!later) later = scene.runner->consider(run_of_two(), 9);
    if (later) failure = later->failure;
    return !failure.empty();
  });
  CHECK(contains(failure, "ended with exit status 0"));
}

TEST_CASE("a flood on standard error is cut, with the number of omitted lines") {
  Scene scene(R"(read a; seq 1 250 >&2; echo '{"jobs":[{}]}'; read b; echo '{"jobs":[{}]}'; read c)");
  scene.ask(1);
  scene.run_until([&] { return scene.on_line.size() == 100; });
  scene.ask(3);
  CHECK(scene.on_line.front() == "1");
  CHECK(scene.on_line.back() == "(150 more lines are omitted)");
}

TEST_CASE("what a program has started ends with it, and closing lets it end by itself") {
  Scene scene(R"(sleep 600 & echo $! >&2; while read a; do :; done; echo bye >&2; exit 0)");
  scene.run_until([&] { return scene.on_line.size() == 1; });
  const auto child = static_cast<pid_t>(std::stol(scene.on_line[0]));
  CHECK(is_alive(child));
  scene.runner->close();
  scene.run_until([&] { return !scene.runner->any_process() && scene.on_line.size() == 2; });
  CHECK(scene.on_line[1] == "bye");
  for (int i = 0; i < 500 && is_alive(child); ++i) ::usleep(10'000);
  CHECK_FALSE(is_alive(child));
  CHECK_FALSE(scene.runner->take_answer(run_of_two()).has_value());
}

TEST_CASE("a program that is not there is an error at the start, with what to do") {
  Outside outside;
  outside.program = {"no-such-policy-program"};
  const Status found = check_outside(outside, 1);
  REQUIRE_FALSE(found.ok());
  CHECK(contains(found.error().message, "policy.program: there is no executable program \"no-such-policy-program\""));
  CHECK(contains(found.error().message, "PATH"));
  outside.program = {"/etc/passwd"};
  CHECK(contains(check_outside(outside, 1).error().message, "x permission"));
  outside.program = {"sh"};
  CHECK(check_outside(outside, 1).ok());
  asio::io_context io;
  outside.program = {"/etc/passwd"};
  const auto started = Program::start(io, outside, {});
  REQUIRE_FALSE(started.ok());
  CHECK(started.error().code == ErrorCode::kInvalid);
}

// A run by the policy cost, whose utility a shell script says.
struct UtilityScene {
  explicit UtilityScene(const std::string& script, std::uint64_t timeout_ms = kNever_ms)
      : UtilityScene(std::vector<std::string>{"sh", "-c", script, "worth"}, timeout_ms) {}
  UtilityScene(std::vector<std::string> program, std::uint64_t timeout_ms) {
    ::signal(SIGPIPE, SIG_IGN);
    RunnerSettings settings;
    settings.name = "cost";
    settings.utility = {"", "", std::move(program), timeout_ms, "policy.utility_program", "table"};
    settings.observer.max_workers = 8;
    settings.observer.samples_total = 1e6;
    runner = std::make_unique<Runner>(settings);
    REQUIRE(runner->open(io, {[] {}, [](const std::string&) {}}).ok());
  }
  // The decision about the first view after `now_s`; until then nothing is decided.
  Considered decide(double now_s) {
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (std::chrono::steady_clock::now() < limit) {
      if (auto considered = runner->consider(run_of_two(), now_s)) return std::move(*considered);
      io.run_one_until(limit);
    }
    FAIL("the program has not answered");
    return {};
  }

  asio::io_context io;
  std::unique_ptr<Runner> runner;
};

TEST_CASE("a program says the utility before each view, and the view has its table") {
  UtilityScene scene(R"(read a; echo '{"utility":[[0,100],[60.5,5]]}'; read b;
                        case $b in *samples_total*) echo '{"utility":[[0,7]]}';; esac; read c)");
  CHECK_FALSE(scene.runner->consider(run_of_two(), 1).has_value());  // nothing is decided before it answers
  const auto first = view_from_json(scene.decide(1).observed);
  REQUIRE(first.ok());
  const auto& table = first->jobs.at(0).utility;
  REQUIRE(table.size() == 2);
  CHECK(table[1].seconds == 60.5);
  CHECK(table[1].value == 5);
  const auto second = view_from_json(scene.decide(3).observed);
  CHECK(second->jobs.at(0).utility.at(0).value == 7);
  scene.runner->close();
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  while (scene.runner->any_process() && std::chrono::steady_clock::now() < limit) scene.io.run_one_until(limit);
  CHECK_FALSE(scene.runner->any_process());
}

TEST_CASE("a program for the utility that fails is not asked again; the policy's utility counts, and it says so") {
  const auto failure = [](const std::string& script, std::uint64_t timeout_ms = kNever_ms) {
    UtilityScene scene(script, timeout_ms);
    const Considered first = scene.decide(1);
    CHECK(first.is_news);
    CHECK(view_from_json(first.observed)->jobs.at(0).utility.empty());
    CHECK(contains(scene.runner->last_reason().text, first.failure));
    const Considered later = scene.decide(3);
    CHECK(later.failure.empty());
    CHECK_FALSE(later.is_news);
    CHECK(contains(scene.runner->last_reason().text, "; policy.cost.utility counts instead"));
    return first.failure;
  };
  CHECK(failure("read a; echo no table >&2; exit 3") ==
        "the program of policy.utility_program ended with exit status 3: no table; policy.cost.utility counts instead");
  CHECK(contains(failure(R"(read a; echo '{"utility":[[5,1],[2,3]]}'; read b)"),
                 "wrote a line that is not a table: point 2: its seconds must be more than those of the one before"));
  CHECK(contains(failure("read a; echo '[]'; read b"), "it must be {\"utility\": [[SECONDS, VALUE], ...]}"));
  CHECK(contains(failure("read a; read b", 50), "gave no table within "));
}

TEST_CASE("the example of a utility is worth its value until its deadline, and nothing an hour later") {
  const std::string program = ELASTICTRAIN_SOURCE_DIR "/scripts/policies/utility.py";
  if (std::string(PYTHON).empty()) return;
  UtilityScene scene({PYTHON, program, "2999-01-31T09:00", "500"}, kNever_ms);
  const auto view = view_from_json(scene.decide(1).observed);
  REQUIRE(view.ok());
  const auto& table = view->jobs.at(0).utility;
  REQUIRE(table.size() == 2);
  CHECK(table[0].seconds > 1e9);
  CHECK(table[0].value == 500);
  CHECK(table[1].seconds - table[0].seconds == doctest::Approx(3600));
  CHECK(table[1].value == 0);
}

TEST_CASE("a table of a program is bounded and must be one") {
  std::string many = "[0,1]";
  for (std::size_t i = 1; i <= kMaxUtilityPoints; ++i) many += ",[" + std::to_string(i) + ",1]";
  CHECK(contains(read_utility("{\"utility\":[" + many + "]}").error().message, "it has 257 points; at most 256"));
  CHECK(contains(read_utility(R"({"utility":[[0,"a"]]})").error().message, "point 1 must be [SECONDS, VALUE]"));
  CHECK(contains(read_utility(R"({"utility":[]})").error().message, "needs at least one point"));
  CHECK(read_utility(R"({"utility":[[0,1e3],[1.5,-2]]})")->at(1).value == -2);
}

Outside library(const std::string& path, const std::string& argument = "") {
  Outside outside;
  outside.library = path;
  outside.argument = argument;
  return outside;
}

std::string problem(const Outside& outside) {
  const Status status = check_outside(outside, 1);
  return status.ok() ? "" : status.error().message;
}

TEST_CASE("a shared object that cannot be used is an error at the start, with the path and what to do") {
  CHECK(contains(problem(library("/no/such.so")), "policy.library = /no/such.so: there is no such file; build it"));
  CHECK(contains(problem(library(NO_POLICY)), "it exports no elastictrain_policy; include elastictrain/policy.h"));
  CHECK(contains(problem(library(OLD_POLICY)), "version 1 of the interface is required, it has version 2; build it"));
  CHECK(contains(problem(library("/etc/passwd")), "it must be a shared object for this machine"));
  CHECK(contains(problem(library(ODD_POLICY, "refuse")), "it refuses policy.argument = \"refuse\": not today"));
  CHECK(problem(library(ODD_POLICY)).empty());
}

TEST_CASE("a shared object decides as any policy; an invalid decision keeps the size and is reported once") {
  asio::io_context io;
  RunnerSettings settings;
  settings.observer.max_workers = 8;
  settings.outside = library(ODD_POLICY, R"({"jobs":[{"workers":4,"reason":{"code":"c","text":"t"}}]})");
  Runner good(settings);
  REQUIRE(good.open(io, {}).ok());
  CHECK(std::get<core::Resize>(good.consider(run_of_two(), 1)->events.at(0)).target == 4);
  for (const char* wrong : {"rubbish", "silent", "twice"}) {
    CAPTURE(wrong);
    settings.outside = library(ODD_POLICY, wrong);
    Runner runner(settings);
    REQUIRE(runner.open(io, {}).ok());
    const auto first = runner.consider(run_of_two(), 1);
    CHECK(first->events.empty());
    CHECK(first->decision.reason.code == kPolicyFailed);
    CHECK(contains(first->failure, "; the size stays"));
    CHECK(runner.consider(run_of_two(), 3)->failure.empty());
  }
}

TEST_CASE("the output of an external policy fits into the journal") {
  const auto decision = read_decision(R"({"jobs":[{"reason":{"code":"c","text":")" + std::string(999, 'a') +
                                      R"(éé","numbers":{"event":1,"a \"b":2,"mine":3}}}]})");
  REQUIRE(decision.ok());
  const heuristics::Reason& reason = decision->jobs[0].reason;
  CHECK(reason.text == std::string(999, 'a') + "...");
  CHECK(reason.numbers[0].first == "a__b");
  CHECK(reason.numbers[1].first == "event_");
  CHECK(reason.numbers[2].first == "mine");
}

TEST_CASE("a batch or a rate that no training survives is a mistake of the policy") {
  const auto problem = [](const std::string& fields) {
    const auto decision = read_decision(R"({"jobs":[{)" + fields + R"(,"reason":{"code":"c"}}]})");
    return decision.ok() ? "" : decision.error().message;
  };
  CHECK(problem(R"("per_worker_batch":64,"learning_rate_factor":0.5)").empty());
  CHECK(contains(problem(R"("per_worker_batch":0)"), "per_worker_batch is 0; it must be from 1 to 1073741824"));
  CHECK(contains(problem(R"("per_worker_batch":4294967295)"), "per_worker_batch is 4294967295"));
  CHECK(contains(problem(R"("learning_rate_factor":1e300)"), "learning_rate_factor is 1"));
  CHECK(problem(R"("goodput":[{"workers":1,"rate":3.5},{"workers":4,"rate":2}])").empty());
  for (const char* wrong : {R"([{"workers":0,"rate":1}])", R"([{"workers":1,"rate":0}])",
                            R"([{"workers":2,"rate":1},{"workers":1,"rate":1}])"}) {
    CHECK(contains(problem(R"("goodput":)" + std::string(wrong)), "goodput must be at most 1024 rates above 0"));
  }
  CHECK(contains(problem(R"("learning_rate_factor":-1)"), "it must be from 0.000001 to 1000000"));
}

// The decisions of the examples for a job that scales well up to two workers and not beyond.
std::vector<std::uint32_t> sizes_by(const Outside& outside) {
  RunnerSettings settings;
  settings.outside = outside;
  auto replay = Replay::make(settings);
  REQUIRE(replay.ok());
  heuristics::ClusterView view;
  heuristics::JobView& job = view.jobs.emplace_back();
  job.workers = 1;
  job.max_workers = 8;
  job.reachable = 8;
  std::vector<std::uint32_t> sizes;
  for (int i = 0; i < 8; ++i) {
    const double rate = job.workers == 1 ? 100 : 190;
    heuristics::Interval interval;
    interval.begin_s = view.now_s;
    interval.end_s = view.now_s + 10;
    interval.workers = job.workers;
    interval.samples = static_cast<std::uint64_t>(10 * rate);
    job.intervals = {interval};
    job.samples_done += 10 * rate;
    view.now_s += 10;
    const auto decision = (*replay)->decide(view);
    CAPTURE(decision.jobs.at(0).reason.text);
    CHECK(decision.jobs.at(0).reason.code != kPolicyFailed);
    job.workers = decision.jobs.at(0).workers.value_or(job.workers);
    sizes.push_back(job.workers);
  }
  return sizes;
}

TEST_CASE("the examples grow while it pays, go back one, and stay") {
  const std::string folder = ELASTICTRAIN_SOURCE_DIR "/scripts/policies/";
  const std::vector<std::uint32_t> expected{2, 3, 2, 2, 2, 2, 2, 2};
  CHECK(sizes_by(library(EXAMPLE_POLICY)) == expected);
  CHECK(problem(library(EXAMPLE_POLICY, "2")).find("write a share above 0") != std::string::npos);
  Outside outside;
  outside.timeout_ms = kNever_ms;
  outside.program = {PYTHON, folder + "policy.py"};
  if (!std::string(PYTHON).empty()) CHECK(sizes_by(outside) == expected);
  outside.program = {"sh", folder + "policy.sh"};
  const auto by_shell = sizes_by(outside);  // it measures between views, so each size takes it one more
  CHECK(by_shell.back() == 2);
  CHECK(*std::max_element(by_shell.begin(), by_shell.end()) == 3);
}

}  // namespace
}  // namespace elastictrain::policy
