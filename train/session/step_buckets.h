// Purpose: the step between next_batch() and commit_step() as data: its division and its buckets, and the thread
// that reduces buckets in the order of their submission.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "elastictrain/session.hpp"
#include "supervisor/protocol/result.h"
#include "train/comm/communicator.h"
#include "train/session/run_progress.h"

// One thread that reduces buckets in the order of submission while the training thread computes the next ones.
// It is created with the first bucket, so programs that reduce at the end of the pass have no extra thread.
//
// Thread: submit() and wait() on the training thread; the work runs on the reducer's own. Ownership: a bucket must keep
// its address until wait() has returned. Failure: after the first failed bucket the remaining ones up to the next
// wait() are left unchanged, and that wait() returns the failure.

namespace elastictrain::session {

using Collective = std::function<Status(comm::Communicator&)>;

// A sum that the program makes elsewhere.
struct ElsewhereSum {
  StartElsewhere start;
  FinishElsewhere finish;
  std::uint64_t step = 0;    // the same in all repetitions of a step, and in no other step of this process
  std::uint32_t number = 0;  // among such sums of the step
};

// One piece of a step's gradient, in the program's memory.
struct Bucket {
  enum class Kind { kGradient, kOwnData, kElsewhere, kDeviceTransfers } kind = Kind::kGradient;
  float* data = nullptr;  // in single precision, where the sum is made
  std::size_t count = 0;
  // The program's memory of a gradient in 16 bits, or null. `data` is the session's then.
  void* narrow = nullptr;
  comm::Element element = comm::Element::kFloat32;
  bool is_widened = false;  // `data` holds its values, or what became of them
  // kOwnData, in place of `data`: the program's own collective, and the memory that it changes in place.
  Collective share = {};
  std::span<std::byte> bytes = {};
  // kElsewhere, in place of `data`. `copied`: of its input, where it is.
  std::shared_ptr<const ElsewhereSum> elsewhere = {};
  std::span<float> copy = {};  // memory for this worker's input, so that its all-reduce can be repeated
  bool copied = false;
  bool is_zero = false;   // `data` was cleared in place of a gradient and has not been reduced since
  std::size_t index = 0;  // its place among the buckets of the step
  bool on_device = false;
  void* stream = nullptr;  // of a gradient in device memory: the stream that produces it

  std::size_t memory_bytes() const { return count * (narrow != nullptr ? sizeof(std::uint16_t) : sizeof(float)); }
  // The program's memory of a gradient.
  const std::byte* memory() const {
    return static_cast<const std::byte*>(narrow != nullptr ? narrow : static_cast<const void*>(data));
  }
  bool shares_memory_with(const Bucket& other) const {
    return memory() < other.memory() + other.memory_bytes() && other.memory() < memory() + memory_bytes();
  }
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

// The step between next_batch() and commit_step(): its division, its buckets, and what their sums brought.
// Ownership: the step runner. Thread: the training thread, and the reducer's while buckets are reduced in the
// background.

struct OpenStep {
  StepDivision division;
  std::vector<std::uint64_t> samples;
  std::deque<Bucket> buckets;  // in the order of the calls
  bool is_local = false;       // a batch of a round that is not its last: nothing is exchanged with a wait
  bool discarded = false;      // this worker gave it up: its result is not used
  bool lane_sent = false;
  bool first_state_sent = false;  // or is about to be, in the background
  bool state_is_free = false;     // no transfer or copy of the state is in progress: the program may write it
  bool wants_norm = false;
  bool wants_variance = false;
  double gradient_variance = 0;
  bool averages = false;         // models instead of gradients
  bool has_equal_state = false;  // received in its first all-reduce, not yet in the program's memory
  double local_square_sum = 0;
  double reduced_square_sum = 0;
  // Where the program is asked for the norms of two halves of its batch: samples of the first one, otherwise 0.
  std::uint64_t first_half = 0;
  std::optional<double> halves_square;  // the mean of their squared norms, once it is reported

  bool has_samples() const { return division.my_count != 0; }
  // Whose input tells when the pass is over: the device's last one, whatever the host sums behind it.
  const Bucket& last_of_pass() const {
    const auto found =
        std::find_if(buckets.rbegin(), buckets.rend(), [](const Bucket& bucket) { return bucket.on_device; });
    return found == buckets.rend() ? buckets.back() : *found;
  }
  Bucket& add_bucket(float* data, std::size_t count) {
    return buckets.emplace_back(Bucket{.data = data, .count = count, .index = buckets.size()});
  }
  void add(const comm::ReduceStats& stats) {
    local_square_sum += stats.local_square_sum;
    reduced_square_sum += stats.reduced_square_sum;
  }
};

}  // namespace elastictrain::session
