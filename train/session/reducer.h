// Purpose: one thread that reduces buckets in the order of submission while the training thread computes the next ones.
// It is created with the first bucket, so programs that reduce at the end of the pass have no extra thread.
//
// Thread: submit() and wait() on the training thread; the work runs on the reducer's own. Ownership: a bucket must keep
// its address until wait() has returned. Failure: after the first failed bucket the remaining ones up to the next
// wait() are left unchanged, and that wait() returns the failure.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"

namespace elastictrain::session {

using Collective = std::function<Status(comm::Communicator&)>;

// One piece of a step's gradient, in the program's memory.
struct Bucket {
  enum class Kind { kGradient, kOwnData, kDeviceTransfers } kind = Kind::kGradient;
  float* data = nullptr;  // in single precision, where the sum is made
  std::size_t count = 0;
  // The program's memory of a gradient in 16 bits, or null. `data` is the session's then.
  void* narrow = nullptr;
  comm::Element element = comm::Element::kFloat32;
  bool is_widened = false;  // `data` holds its values, or what became of them
  // kOwnData, in place of `data`: the program's own collective, and the memory that it changes in place.
  Collective share = {};
  std::span<std::byte> bytes = {};
  std::span<float> copy = {};  // memory for this worker's input, so that its all-reduce can be repeated
  bool copied = false;
  bool is_zero = false;   // `data` was cleared in place of a gradient and has not been reduced since
  std::size_t index = 0;  // its place among the buckets of the step
  bool on_device = false;
  void* stream = nullptr;  // of a gradient in device memory: the stream that produces it

  std::size_t bytes_on_device() const { return count * (narrow != nullptr ? sizeof(std::uint16_t) : sizeof(float)); }
};

class Reducer {
 public:
  using Work = std::function<Status(Bucket&)>;

  explicit Reducer(Work work);
  ~Reducer();  // a bucket in progress must have been aborted before
  void submit(Bucket& bucket);
  Status wait();

 private:
  void run();
  void reduce(Bucket& bucket, std::unique_lock<std::mutex>& lock);

  Work work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Bucket*> queue_;
  bool busy_ = false;
  bool ending_ = false;
  Status failure_;
  std::thread thread_;
};

}  // namespace elastictrain::session
