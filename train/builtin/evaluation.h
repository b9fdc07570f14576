// Purpose: scores the model on held-out data in parallel with training, so that no worker waits for it but for a moment
// (wait()). The parameters are copied at a step boundary, and a thread of this class works on the copy.
//
// Ownership: borrows the model, which must outlive it. Thread: all calls on the training thread. The destructor waits
// for a score in progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "train/builtin/model.h"

namespace elastictrain::train {

class BackgroundEvaluation {
 public:
  struct Outcome {
    std::uint64_t epoch = 0;
    Score score;
  };

  explicit BackgroundEvaluation(Model& model) : model_(model) {}

  // Does nothing while the previous evaluation runs: one that takes longer than the epochs between two skips some.
  void start(std::uint64_t epoch, std::span<const float> parameters);

  // Returns the score once, when it is available.
  std::optional<Outcome> poll();

  // As poll(), but waits for a score in progress, for two seconds in all: epochs that are shorter than a score have one
  // each, as the trials of a search need it, and long scores hold up nobody.
  std::optional<Outcome> wait();

  // Ends the background work and scores these parameters.
  Score evaluate_now(std::span<const float> parameters);

 private:
  Model& model_;
  std::vector<float> snapshot_;
  std::uint64_t epoch_ = 0;
  std::future<Score> running_;
  std::chrono::steady_clock::duration may_wait_ = std::chrono::seconds(2);
};

}  // namespace elastictrain::train
