// Phases that a program announces because they may take long.
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>

#include "fake_run.h"
#include "train/session/monitors.h"

namespace elastictrain::test {
namespace {

using protocol::ProgramPhase;
using protocol::StepPlace;
using std::chrono::milliseconds;

TEST_CASE("heartbeats say which phase a worker is in, in a step and between steps") {
  for (const bool in_step : {true, false}) {
    TestWorkerOptions options;
    const auto announces = [](Session& session, std::uint64_t step) {
      if (step == 5) session.phase("evaluation");
      if (step == 6) session.phase("");
    };
    (in_step ? options.in_step : options.between_steps) = announces;
    options.waits = Moment{in_step ? Moment::kUpdating : Moment::kComputing, in_step ? 5U : 6U};
    FakeRun run(options);
    const auto workers = run.spawn_ready(2);
    run.change_to(workers);
    run.wait_until([&] { return run[workers[0]].heartbeat.phase == ProgramPhase::kEvaluation; }, "the phase");
    run.let_go();
    run.wait_until([&] { return run[workers[0]].heartbeat.phase == ProgramPhase::kNone; }, "its end");
    run.stop_and_check();
  }
}

TEST_CASE("an unknown phase is refused with those there are") {
  Session session;
  std::string text;
  try {
    session.phase("lunch");
  } catch (const SessionError& error) {
    text = error.what();
  }
  CHECK(text.find("\"evaluation\"") != std::string::npos);
}

using session::StepClock;
using session::StepTimes;

class TimedStep {
 public:
  TimedStep() {
    clock.step_begins(at(0));
    clock.batch_given(at(0));
    clock.step_ends(at(0));
  }
  static session::Clock::time_point at(int ms) {
    return session::Clock::time_point(std::chrono::hours(1)) + milliseconds(ms);
  }
  StepClock clock;
};

TEST_CASE("time in the data phase is data wait, not computation") {
  TimedStep step;
  auto& clock = step.clock;
  clock.step_begins(step.at(10));
  clock.batch_given(step.at(10));
  clock.phase_begins(true, step.at(20));
  clock.phase_ends(step.at(520));
  clock.collective_begins(step.at(600));
  clock.collective_ends(step.at(610));
  const StepTimes times = clock.step_ends(step.at(615));
  CHECK(times.data_wait_us == doctest::Approx(510'000));
  CHECK(times.compute_us == doctest::Approx(90'000));
  CHECK(times.communicate_us == doctest::Approx(10'000));
  CHECK(times.step_us == doctest::Approx(615'000));
}

TEST_CASE("time in another phase is part of no step, wherever it begins and ends") {
  TimedStep step;
  auto& clock = step.clock;
  clock.phase_begins(false, step.at(10));
  clock.step_begins(step.at(1010));
  clock.batch_given(step.at(1010));
  clock.phase_ends(step.at(2010));
  clock.collective_begins(step.at(2030));
  clock.collective_ends(step.at(2040));
  clock.phase_begins(false, step.at(2041));
  StepTimes times = clock.step_ends(step.at(3000));
  CHECK(times.data_wait_us == doctest::Approx(10'000));
  CHECK(times.compute_us == doctest::Approx(20'000));
  CHECK(times.step_us == doctest::Approx(41'000));
  clock.phase_ends(step.at(4000));
  clock.step_begins(step.at(4001));
  clock.batch_given(step.at(4001));
  clock.collective_begins(step.at(4021));
  clock.collective_ends(step.at(4022));
  times = clock.step_ends(step.at(4023));
  CHECK(times.step_us == doctest::Approx(23'000));
}

}  // namespace
}  // namespace elastictrain::test
