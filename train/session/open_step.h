// Purpose: the step between next_batch() and commit_step(): its division, its buckets, and what their sums brought.
// Ownership: the step runner. Thread: the training thread, and the reducer's while buckets are reduced in the
// background.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "train/comm/communicator.h"
#include "train/session/reducer.h"
#include "train/session/step_division.h"

namespace elastictrain::session {

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
