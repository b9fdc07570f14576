// The end of an epoch, where no batch may be too small.
#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "fake_run.h"
#include "train/state/sampler.h"

namespace elastictrain::test {
namespace {

using Shares = std::vector<std::uint32_t>;

TEST_CASE("every sample counts once and no batch is below the minimum, for any size of the data and of the shares") {
  for (const Shares& shares :
       {Shares{8}, Shares{8, 8}, Shares{4, 4, 4}, Shares{9, 5, 3}, Shares{8, 0, 8}, Shares{3, 3, 3, 3}}) {
    for (std::uint64_t count = 3; count < 80; ++count) {
      for (const std::uint64_t min : {1, 2, 3}) {
        state::SamplerState sampler;
        std::set<std::uint64_t> seen;
        while (sampler.epoch == 0) {
          const auto cut = state::cut_step(sampler, count, shares, min);
          std::uint64_t total = 0;
          for (std::size_t rank = 0; rank < shares.size(); ++rank) {
            const auto part = cut.count(rank);
            total += part;
            CHECK((part == 0 || part >= min));
            CHECK((part == 0 || shares[rank] != 0));
            CHECK(part <= std::max<std::uint64_t>(shares[rank] + min, 2 * min));
            for (const auto& [first, length] : cut.part(rank)) {
              for (auto at = first; at < first + length; ++at) CHECK(seen.insert(at).second);
            }
          }
          REQUIRE(total == cut.total);
          sampler = state::advance(sampler, count, cut);
        }
        CHECK(seen.size() == count);
      }
    }
  }
}

TEST_CASE("fewer samples than the minimum are one batch: of a small data set, or returned by a loss at the end") {
  const Shares shares{4, 4};
  CHECK(state::cut_step({}, 1, shares, 2).counts == std::vector<std::uint64_t>{1, 0});
  const state::SamplerState returned{.cursor = 100, .returned = {{50, 1}}};
  CHECK(state::cut_step(returned, 100, shares, 2).counts == std::vector<std::uint64_t>{1, 0});
  CHECK(state::cut_step({.cursor = 91}, 100, shares, 2).total == 9);  // the last one goes with the others
  CHECK(state::cut_step({.cursor = 91}, 100, shares).total == 8);
  CHECK(state::cut_step({.cursor = 97}, 100, shares, 2).counts == std::vector<std::uint64_t>{3, 0});
  CHECK(state::cut_step({.cursor = 97}, 100, shares).counts == std::vector<std::uint64_t>{2, 1});
}

TEST_CASE("alone, what does not fill a batch is dropped, also from what is looked up") {
  Session session;
  session.set_data({.sample_count = 100, .epochs = 3, .batch = 32, .drop_last = true});
  session.start();
  CHECK(session.look_ahead(100).batch_sizes == std::vector<std::uint64_t>(9, 32));
  std::vector<std::uint64_t> epochs;
  while (const auto batch = session.next_batch()) {
    CHECK(batch->samples.size() == 32);
    CHECK(batch->first_of_epoch == (epochs.size() % 3 == 0));
    epochs.push_back(batch->epoch);
    session.commit_step();
  }
  CHECK(epochs == std::vector<std::uint64_t>{0, 0, 0, 1, 1, 1, 2, 2, 2});
}

TEST_CASE("an epoch that does not fill a step is kept") {
  Session session;
  session.set_data({.sample_count = 10, .epochs = 2, .batch = 32, .drop_last = true});
  session.start();
  int steps = 0;
  for (; session.next_batch(); ++steps) session.commit_step();
  CHECK(steps == 2);
}

// Every position is accounted for, the dropped ones by their own records.
TEST_CASE("a run that drops what does not fill a step, through a growth and a loss") {
  TestWorkerOptions options{.sample_count = 97, .epochs = 40, .drop_last = true};
  options.on_batch = [](const Batch& batch) {
    if (batch.local_samples != 0 && batch.local_samples != 8) throw std::runtime_error("a batch that is not full");
  };
  FakeRun run(options);
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 20);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 10);
  run.kill(workers[2]);
  run.recover();
  run.wait_all_exited();
  CHECK(run[workers[0]].exit_code == kExitFinished);
  CHECK(run[workers[1]].exit_code == kExitFinished);
  std::uint64_t dropped = 0;
  for (const auto& step : run[workers[0]].notified_of_state) dropped += step.first_position + step.count == 97 ? 1 : 0;
  CHECK(dropped >= 39);
}

TEST_CASE("a run of workers whose batches are never below the minimum, through a growth") {
  TestWorkerOptions options{.sample_count = 97, .epochs = 12, .min_local_samples = 3};
  options.on_batch = [](const Batch& batch) {
    if (batch.local_samples != 0 && batch.local_samples < 3) throw std::runtime_error("a batch below the minimum");
  };
  FakeRun run(options);
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_all_exited();
  for (const WorkerId worker : workers) CHECK(run[worker].exit_code == kExitFinished);
  run.check_audit();
}

}  // namespace
}  // namespace elastictrain::test
