// The next batches, before they are given.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_run.h"

namespace elastictrain::test {
namespace {

TEST_CASE("alone, the next batches are those that were looked up, over the end of an epoch and of the data") {
  for (const bool shuffle : {true, false}) {
    Session session;
    session.set_data({.sample_count = 100, .epochs = 2, .seed = 3, .batch = 32, .shuffle = shuffle});
    CHECK_THROWS_AS(session.look_ahead(1), SessionError);
    session.start();
    const auto all = session.look_ahead(100);
    CHECK(all.batch_sizes == std::vector<std::uint64_t>{32, 32, 32, 4, 32, 32, 32, 4});
    std::vector<std::uint64_t> seen;
    while (const auto batch = session.next_batch()) {
      seen.insert(seen.end(), batch->samples.begin(), batch->samples.end());
      const auto rest = session.look_ahead(100).samples;
      CHECK(std::equal(rest.begin(), rest.end(), all.samples.begin() + static_cast<std::ptrdiff_t>(seen.size()),
                       all.samples.end()));
      session.commit_step();
    }
    CHECK(seen == all.samples);
    CHECK(session.look_ahead(3).batch_sizes.empty());
  }
}

TEST_CASE("data of the program's own has sizes only") {
  Session session;
  session.set_data({.sample_count = 0, .batch = 4, .max_steps = 3});
  session.start();
  const auto ahead = session.look_ahead(5);
  CHECK(ahead.batch_sizes == std::vector<std::uint64_t>{4, 4, 4});
  CHECK(ahead.samples.empty());
}

// Notes how many batches were not as looked up one step before, or in the step before.
struct Forecast {
  std::vector<std::uint64_t> next;
  bool known = false;
  int wrong = 0;
  int right = 0;
};

TestWorkerOptions with_forecast() {
  TestWorkerOptions options{.sample_count = 333};
  const auto forecast = std::make_shared<Forecast>();
  options.in_step = [forecast](Session& session, std::uint64_t) {
    const auto ahead = session.look_ahead(4);
    if (!ahead.batch_sizes.empty()) {
      forecast->next.assign(ahead.samples.begin(),
                            ahead.samples.begin() + static_cast<std::ptrdiff_t>(ahead.batch_sizes[0]));
    }
    forecast->known = !ahead.batch_sizes.empty();
  };
  options.between_steps = [forecast](Session& session, std::uint64_t) {
    if (!forecast->known || session.outcome() != Outcome::kRunning) return;
    const auto ahead = session.look_ahead(1);
    const bool same =
        std::equal(ahead.samples.begin(), ahead.samples.end(), forecast->next.begin(), forecast->next.end());
    ++(same ? forecast->right : forecast->wrong);
    session.note("forecast",
                 std::to_string(forecast->wrong) + " of " + std::to_string(forecast->right + forecast->wrong));
  };
  return options;
}

TEST_CASE("a look ahead in a step holds in the next one, also where a change was ready by then") {
  const auto options = with_forecast();
  FakeRun run(options);
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 60);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 60);
  run.change_to({workers[0], workers[2]});
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 60);
  run.wait_until([&] { return run[workers[0]].notes.contains("forecast"); }, "the forecasts");
  // A change that became ready after the look, in the same step, makes it wrong.
  const std::string note = run[workers[0]].notes["forecast"];
  CHECK(std::stoi(note) <= 2);
  CHECK(std::stoi(note.substr(note.find("of ") + 3)) >= 150);
  run.stop_and_check();
}

TEST_CASE("what is looked up between two steps is what next_batch() gives") {
  TestWorkerOptions options{.sample_count = 333};
  const auto expected = std::make_shared<std::vector<std::uint64_t>>();
  options.between_steps = [expected](Session& session, std::uint64_t) { *expected = session.look_ahead(1).samples; };
  options.on_batch = [expected](const Batch& batch) {
    const bool same = std::equal(batch.samples.begin(), batch.samples.end(), expected->begin(), expected->end());
    if (batch.step > 1 && batch.local_samples != 0 && !same) throw std::runtime_error("another batch than looked up");
  };
  FakeRun run(options);
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 30);
  run.kill(workers[2]);
  run.recover();
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 30);
  run.stop_and_check();
}

}  // namespace
}  // namespace elastictrain::test
