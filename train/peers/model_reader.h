// Purpose: reads other workers' models in the background, one at a time, so that the reader never waits for one.
// Ownership: who reads; the store behind `read` must outlive it. Thread: start() and take() on one thread at a time;
// `read` runs on a thread of this class. Failure: a model that cannot be read does not arrive.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace elastictrain::peers {

class ModelReader {
 public:
  // False: there is no model of this size at the store of `entry`.
  using Read = std::function<bool(std::span<const std::byte> entry, std::span<float> model)>;

  explicit ModelReader(Read read);
  // Waits for the read in progress; end that first.
  ~ModelReader();

  // Does nothing while another read is in progress, or its model has not been taken.
  void start(std::span<const std::byte> entry, std::size_t floats);
  // Once for each model that has arrived: exchanges it for the memory of the next one.
  bool take(std::vector<float>& model);

 private:
  enum class State { kIdle, kAsked, kArrived, kEnding };
  void run();

  Read read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kIdle;
  std::vector<std::byte> entry_;
  std::vector<float> model_;  // of run() while a read is in progress
  std::thread thread_;
};

}  // namespace elastictrain::peers
