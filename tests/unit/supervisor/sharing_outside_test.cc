// Purpose: sharing policies from outside: views and answers as text, the simulator's way to ask them, and the failures
// of programs and libraries.
#include <doctest/doctest.h>
#include <signal.h>

#include <asio/io_context.hpp>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/policy/external_sharing.h"
#include "supervisor/policy/sharing_json.h"
#include "supervisor/protocol/json_text.h"
#include "tests/support/contains.h"

namespace elastictrain::policy {
namespace {

namespace sharing = heuristics::sharing;

using test::contains;

// Two jobs on 4 slots: 3 holds two of them, 5 waits.
struct TwoJobs {
  TwoJobs() {
    view.now_s = 12.5;
    view.slots = 4;
    view.hosts = {{"a", 3}, {"b", 1}};
    sharing::JobView trains;
    trains.id = 3;
    trains.arrival_s = 1.5;
    trains.requested = 2;
    trains.curve = &curve;
    trains.remaining = 600;
    trains.done = 40;
    trains.held = 2;
    trains.running_s = 11;
    trains.attained_slot_s = 22;
    trains.first_start_s = 1.5;
    sharing::JobView waits;
    waits.id = 5;
    waits.arrival_s = 12;
    waits.curve = &curve;
    view.jobs = {trains, waits};
    view.ended = {{4, 1, 7.5, 80, &curve}};
  }

  sharing::Curve curve{{{1, 10}, {2, 18}, {4, 24}}};
  sharing::View view;
};

constexpr const char* kViewText =
    R"({"ended":[{"attained_slot_s":7.5,"id":4,"requested":1,"work":80.0}],)"
    R"("hosts":[{"name":"a","slots":3},{"name":"b","slots":1}],)"
    R"("jobs":[{"arrival_s":1.5,"attained_slot_s":22.0,"done":40.0,"first_start_s":1.5,"held":2,"id":3,)"
    R"("remaining":600.0,"requested":2,"running_s":11.0,"throughput":[10.0,18.0,21.0,24.0]},)"
    R"({"arrival_s":12.0,"attained_slot_s":0.0,"done":0.0,"held":0,"id":5,)"
    R"("requested":1,"running_s":0.0,"throughput":[10.0,18.0,21.0,24.0]}],)"
    R"("now_s":12.5,"priority":0,"slots":4})";

TEST_CASE("a view as text says what is known, and nothing else") {
  TwoJobs scene;
  CHECK(to_json(scene.view) == kViewText);
  scene.view.jobs[0].packs = true;
  scene.view.jobs[0].beside = 5;
  scene.view.jobs[0].alone_rate = 18;
  scene.view.jobs[0].packed_rate = 12;
  scene.view.jobs[0].packed_views = 3;
  const auto packed = parse_json(to_json(scene.view))["jobs"][0];
  CHECK(packed["beside"] == 5);
  CHECK(packed["packed_rate"] == 12);
  CHECK_FALSE(packed.contains("only_beside"));
}

TEST_CASE("an answer as text is a decision about the view") {
  const TwoJobs scene;
  const auto decision = sharing_decision(
      R"({"jobs":[{"id":5,"slots":1,"reason":{"code":"new","text":"a\nfirst try"}},{"id":3,"slots":3,"reason":"rest"}],)"
      R"("again_s":20,"other":{}})",
      scene.view);
  REQUIRE(decision.problem.empty());
  CHECK(decision.grants[0].slots == 3);
  CHECK(decision.grants[1].slots == 1);
  CHECK(decision.reasons == std::vector<std::string>{"rest", "a first try"});
  CHECK(decision.again_s == 20);
}

TEST_CASE("an answer that is none says what is wrong and where") {
  const TwoJobs scene;
  const auto problem = [&](const char* text) { return sharing_decision(text, scene.view).problem; };
  CHECK(problem("rubbish") == "the decision is not JSON");
  CHECK(problem(R"({"jobs":[{"id":3,"slots":NaN}]})") == "the decision is not JSON");
  CHECK(problem(R"({"jobs":[{"id":3,"slots":1e999}]})") == "the decision is not JSON");
  CHECK(problem("[]") == "jobs must be a list");
  CHECK(problem(R"({"jobs":[3]})") == "jobs[0] must be an object");
  CHECK(problem(R"({"jobs":[{"slots":3}]})") == "jobs[0] has no id");
  CHECK(problem(R"({"jobs":[{"id":3,"slots":-1}]})") == "jobs[0].slots must be a whole number that is not negative");
  CHECK(problem(R"({"jobs":[{"id":3},{"id":5,"slots":1.5}]})") ==
        "jobs[1].slots must be a whole number that is not negative");
  CHECK(problem(R"({"jobs":[{"id":3,"slots":5000000000}]})") ==
        "jobs[0].slots must be a whole number that is not negative");
  CHECK(problem(R"({"jobs":[{"id":3,"slots":1,"reason":7}]})") ==
        "jobs[0].reason must be a text, or an object with a text");
  CHECK(problem(R"({"jobs":[],"again_s":"soon"})") == "again_s must be a number");
  CHECK(problem(R"({"jobs":[{"id":7,"slots":1}]})") == "there is no job 7 in the view");
}

sharing::Decision ask(const sharing::PolicySpec& spec, sharing::State& state, const sharing::View& view) {
  sharing::Decision decision;
  decision.grants.resize(view.jobs.size());
  sharing::Rng rng(1);
  spec.make({})->decide(view, state, rng, decision);
  return decision;
}

// What a shell script answers to each of so many views in turn.
std::vector<sharing::Decision> answers_of(const std::string& script, std::size_t views = 1,
                                          std::uint64_t timeout_ms = 600'000) {
  ::signal(SIGPIPE, SIG_IGN);  // as the program does
  const TwoJobs scene;
  Outside outside;
  outside.program = {"sh", "-c", script};
  outside.timeout_ms = timeout_ms;
  const auto spec = outside_spec(outside, 1);
  CHECK(spec.name == "sh");
  const auto state = spec.make({})->initial_state();
  std::vector<sharing::Decision> decisions;
  for (std::size_t i = 0; i < views; ++i) decisions.push_back(ask(spec, *state, scene.view));
  return decisions;
}

TEST_CASE("a program decides, and remembers what it likes") {
  const auto decisions =
      answers_of(R"(for slots in 1 2 3; do read view; echo '{"jobs":[{"id":5,"slots":'$slots'}]}'; done; read end)", 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(decisions[i].problem.empty());
    CHECK(decisions[i].grants[1].slots == static_cast<double>(i + 1));
  }
}

TEST_CASE("a program that does not work is said to, and is not asked again") {
  const auto problem = [](const std::string& script, std::uint64_t timeout_ms = 600'000) {
    const auto decisions = answers_of(script, 2, timeout_ms);
    CHECK(decisions[1].problem == decisions[0].problem);
    return decisions[0].problem;
  };
  CHECK(problem("read a; echo rubbish; read b") ==
        "the program wrote a line that is not a decision: the decision is not JSON");
  CHECK(problem(R"(read a; echo '{"jobs":[{"id":3,"slots":99}]}'; read b)") ==
        "the program wrote a line that is not a decision: job 3 is given 99 slots, and there are 4");
  CHECK(problem("read a; echo no such module >&2; exit 3") == "the program ended with exit status 3: no such module");
  CHECK(problem("read a; kill -9 $$") == "the program ended with signal 9 (SIGKILL)");
  CHECK(problem("exec sleep 600", 50) == "the program gave no decision within 50.0 ms");
  CHECK(contains(problem("exec cat /dev/zero"), "wrote a line of more than 4194304 bytes"));
}

TEST_CASE("a program that ends between two views is noticed at the next one") {
  const auto decisions = answers_of(R"(read a; echo '{"jobs":[]}')", 2);
  CHECK(decisions[0].problem.empty());
  CHECK(decisions[1].problem == "the program ended with exit status 0");
}

TEST_CASE("a program that is not there is a problem of every decision") {
  Outside outside;
  outside.program = {"/no/such/program"};
  const auto spec = outside_spec(outside, 1);
  const auto state = spec.make({})->initial_state();
  CHECK(contains(ask(spec, *state, TwoJobs().view).problem, "policy.program: "));
}

TEST_CASE("a library decides, and a bad answer counts for one view") {
  const TwoJobs scene;
  Outside outside;
  outside.library = ODD_POLICY;
  const auto answer = [&](const std::string& argument) {
    outside.argument = argument;
    const auto spec = outside_spec(outside, 1);
    const auto state = spec.make({})->initial_state();
    const auto first = ask(spec, *state, scene.view);
    CHECK(ask(spec, *state, scene.view).problem == first.problem);
    return first;
  };
  const auto good = answer(R"({"jobs":[{"id":3,"slots":1},{"id":5,"slots":3}]})");
  CHECK(good.problem.empty());
  CHECK(good.grants[1].slots == 3);
  CHECK(answer("silent").problem == "the library returned no decision");
  CHECK(answer("twice").problem == "the library returned more than one decision for a view");
  CHECK(answer(R"({"jobs":[{"id":9,"slots":1}]})").problem ==
        "the library returned an invalid decision: there is no job 9 in the view");
  CHECK(contains(answer("refuse").problem, "it refuses policy.argument = \"refuse\": not today"));
}

TEST_CASE("nobody waits for the answer of a live one") {
  asio::io_context io;
  Outside outside;
  outside.library = ODD_POLICY;
  outside.argument = R"({"jobs":[{"id":5,"slots":2}]})";
  std::vector<OutsideSharing::Answer> answers;
  const auto opened =
      OutsideSharing::open(io, outside, 1, {[&](auto answer) { answers.push_back(std::move(answer)); }, [](auto&) {}});
  REQUIRE(opened.ok());
  const TwoJobs scene;
  (*opened)->ask(OutsideSharing::ViewPointer(std::shared_ptr<void>(), &scene.view), kViewText);
  CHECK(answers.empty());
  io.run();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].text == outside.argument);
  CHECK_FALSE(answers[0].is_last);
}

TEST_CASE("a program or library has a short name") {
  const auto of = [](const std::vector<std::string>& program, const std::string& library = {}) {
    Outside outside;
    outside.program = program;
    outside.library = library;
    return short_name(outside);
  };
  CHECK(of({"python3", "scripts/policies/sharing.py", "2"}) == "sharing.py");
  CHECK(of({"python3", "fair.py"}) == "fair.py");
  CHECK(of({"/opt/fair", "0.5"}) == "fair");
  CHECK(of({"/opt/fair", "most"}) == "fair");
  CHECK(of({"sh", "-c", "exec /opt/fair"}) == "sh");
  CHECK(of({}, "build/fair.so") == "fair.so");
}

}  // namespace
}  // namespace elastictrain::policy
