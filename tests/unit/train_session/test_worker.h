// Purpose: a small training program on the session, run in child processes of the tests. It starts from different
// weights in every process and puts NaN into gradients of empty batches, so that nothing is equal by accident.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "elastictrain/session.hpp"

namespace elastictrain::test {

enum ExitCode : int {
  kExitFinished = 0,
  kExitSessionError = 1,
  kExitBrokenPromise = 2,  // the session did something that its contract excludes
  kExitLeft = 10,
  kExitStopped = 11,
  kExitDismissed = 12,
};

// A moment in the life of a test worker.
struct Moment {
  enum Where { kComputing, kBetweenBuckets, kUpdating, kOutside } where = kComputing;
  std::uint64_t step = 0;
};

struct TestWorkerOptions {
  std::uint64_t sample_count = 1000;
  std::uint64_t epochs = 1'000'000;
  std::uint64_t max_steps = 0;
  std::size_t parameters = 3000;
  std::uint32_t step_time_us = 500;
  bool overlap = true;                   // two buckets through all_reduce_async, otherwise through all_reduce
  bool narrow = false;                   // gradients travel to the session in bfloat16
  std::optional<Moment> dies;            // by SIGKILL
  std::uint64_t dies_in_generation = 0;  // in its first step, whatever the step of `dies`
  std::optional<Moment> waits;           // until FakeRun::let_go(); it ends if that does not come
  bool reduce = true;                    // false: only the control lane travels
  bool may_start_late = false;           // a first generation may have another number than 1
  bool quits_in_the_middle = false;      // an exception out of the loop in step 3
  // Sums and broadcasts data of its own in every step, between the buckets; the result goes into the update.
  bool shares_own_data = false;
  bool shares_model = true;  // false: its weights are state like any other
  bool uses_store = false;   // saves in every step and asks the next rank; notes the result at the end
  std::uint64_t variance_every =
      0;                       // notes the gradient variance, the noise scale and the traffic with each peer at the end
  std::string schedule;        // of sizes, which it asks for
  bool traces_weight = false;  // appends its first weight to a file (trace_path()) after every step, and at the end
  bool notes_faults = false;   // as rank 0 that joins: of its first two all-reduces
  std::string note_gradient_of_step;  // rank 0 notes the first element of that step's averaged gradient
  std::uint32_t min_local_samples = 0;
  bool drop_last = false;
  bool runs_ahead = false;       // in rounds: it dies in the first batch from the step of `dies` on
  bool changes_threads = false;  // every step is made by a thread of its own
  // What a test does besides, in the worker's process.
  std::function<void(Session&)> before_start = {};
  std::function<void(Session&)> after_start = {};
  std::function<void(const Batch&)> on_batch = {};
  std::function<void(Session&, std::uint64_t)> in_step = {};  // before the first all-reduce
  std::function<void(void*)> behind_first_bucket = {};  // on a device: into the stream, behind that bucket's gradient
  std::function<void(Session&, std::uint64_t)> after_sums = {};     // after the last all-reduce
  std::function<void(Session&, std::uint64_t)> between_steps = {};  // after the step's commit
  std::function<void(Session&)> at_end = {};                        // next_batch() has returned nothing
};

inline TestWorkerOptions dying(TestWorkerOptions options, Moment moment) {
  options.dies = moment;
  return options;
}

inline TestWorkerOptions waiting(TestWorkerOptions options, Moment moment) {
  options.waits = moment;
  return options;
}

// A check in a worker's process, which ends with kExitSessionError.
inline void demand(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

// Until FakeRun::let_go(). Throws if that does not come.
void wait_to_be_let_go();

// The gradient of one sample, the same in every process.
double sample_gradient(std::uint64_t sample, std::size_t parameter);

// In the directory of the run.
std::string trace_path(const std::string& directory, std::uint64_t worker);

int run_test_worker(const TestWorkerOptions& options);

}  // namespace elastictrain::test
