#include "train/builtin/epoch_log.h"

#include <doctest/doctest.h>

using namespace elastictrain::train;
using namespace std::chrono_literals;

TEST_CASE("the epoch's loss is weighted by samples and its rate is per second") {
  const EpochLog::Instant start{};
  EpochLog log(start);
  CHECK(log.empty());
  log.add_step(1.0, 30);
  log.add_step(2.0, 10);
  CHECK(log.mean_loss() == doctest::Approx(1.25));
  CHECK(epoch_line(3, 20, log, 4, start + 2s) == "epoch 3/20: loss 1.2500, 4 workers, 20 samples/s");
  CHECK(epoch_line(1, 1, log, 1, start) == "epoch 1/1: loss 1.2500, 1 worker, 0 samples/s");
}

TEST_CASE("scores are printed with accuracy and counts") {
  const Score score{0.5, 1747, 1797};
  CHECK(score_line(2, 5, score) == "epoch 2/5: held-out loss 0.5000, accuracy 0.9722 (1747 of 1797)");
  CHECK(final_line(120, score) == "finished after 120 steps: held-out loss 0.5000, accuracy 0.9722 (1747 of 1797)");
  CHECK(final_line(120, Score{}) == "finished after 120 steps");
}

TEST_CASE("scores of parts add up to the score of all") {
  Score total;
  total.add({1.0, 1, 2});
  total.add({4.0, 1, 1});
  total.add({});
  CHECK(total.loss == doctest::Approx(2.0));
  CHECK(total.correct == 2);
  CHECK(total.count == 3);
}

TEST_CASE("the first epochs are all printed, later ones at most twice a second") {
  const EpochLog::Instant start = EpochLog::Instant{} + 1h;
  TellingPace pace;
  for (std::uint64_t done = 1; done <= 100; ++done) CHECK(pace.due(done, start));
  CHECK_FALSE(pace.due(101, start + 499ms));
  CHECK(pace.due(102, start + 500ms));
  CHECK_FALSE(pace.due(103, start + 999ms));
  CHECK(pace.due(104, start + 1000ms));
}
