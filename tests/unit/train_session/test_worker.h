// Purpose: a small training program on the session, run in child processes of the tests. It starts from different
// weights in every process and puts NaN into gradients of empty batches, so that nothing is equal by accident.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace elastictrain::test {

enum ExitCode : int {
  kExitFinished = 0,
  kExitSessionError = 1,
  kExitBrokenPromise = 2,  // the session did something that its contract rules out
  kExitLeft = 10,
  kExitStopped = 11,
  kExitDismissed = 12,
};

struct TestWorkerOptions {
  std::uint64_t sample_count = 1000;
  std::uint64_t epochs = 1'000'000;
  std::uint64_t max_steps = 0;
  std::size_t parameters = 3000;
  std::uint32_t step_time_us = 500;
  bool overlap = true;                // buckets through all_reduce_async
  bool reduce = true;                 // false: only the control lane travels
  bool quits_in_the_middle = false;   // an exception out of the loop in step 3
  std::string note_gradient_of_step;  // rank 0 notes the first element of that step's averaged gradient
};

// The gradient of one sample, the same in every process.
double sample_gradient(std::uint64_t sample, std::size_t parameter);

int run_test_worker(const TestWorkerOptions& options);

}  // namespace elastictrain::test
