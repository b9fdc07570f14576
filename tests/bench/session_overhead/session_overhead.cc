// Purpose: the same training loop through the session and directly on the communicator, to compare them.
// `session_overhead session [N]` is a worker of a run of two (N: the gradient variance is measured every N steps).
// `session_overhead bare` forks its own second rank. Rank 0 prints steps_per_s=…
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elastictrain/session.hpp>
#include <memory>
#include <vector>

#include "train/comm/cpu_communicator.h"

namespace {

using elastictrain::panic;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kParameters = 1'000'000;
constexpr int kPasses = 30;  // over the parameters; with the all-reduce a step takes about 10 ms
constexpr std::uint64_t kWarmUpSteps = 20;
constexpr std::uint64_t kSteps = 200;
constexpr std::uint32_t kBatch = 16;

struct Model {
  std::vector<float> weights = std::vector<float>(kParameters, 1.0F);
  std::vector<float> gradient = std::vector<float>(kParameters, 0.0F);

  // Not inlined: both loops must run the same machine code.
  [[gnu::noinline]] void compute() {
    for (int pass = 0; pass < kPasses; ++pass) {
      for (std::size_t i = 0; i < kParameters; ++i) gradient[i] = gradient[i] * 0.5F + weights[i] * 0.001F;
    }
  }
  [[gnu::noinline]] void update() {
    for (std::size_t i = 0; i < kParameters; ++i) weights[i] -= 0.01F * gradient[i];
  }
};

class Stopwatch {
 public:
  void step_done(std::uint64_t step) {
    if (step == kWarmUpSteps) start_ = Clock::now();
    if (step == kWarmUpSteps + kSteps) end_ = Clock::now();
  }
  void report() const {
    std::printf("steps_per_s=%.4f\n", kSteps / std::chrono::duration<double>(end_ - start_).count());
  }

 private:
  Clock::time_point start_;
  Clock::time_point end_;
};

int run_session(std::uint64_t variance_every) {
  Model model;
  Stopwatch watch;
  elastictrain::Session session;
  session.share_state("weights", model.weights.data(), kParameters * sizeof(float));
  session.set_data({.sample_count = 1'000'000'000, .batch = kBatch, .max_steps = kWarmUpSteps + kSteps});
  if (variance_every != 0) session.measure_gradient_variance(variance_every);
  if (!session.start()) return 0;
  while (auto batch = session.next_batch()) {
    model.compute();
    session.all_reduce(model.gradient.data(), kParameters);
    model.update();
    session.commit_step({.loss = 1.0});
    watch.step_done(batch->step);
  }
  if (session.rank() == 0) watch.report();
  return 0;
}

std::unique_ptr<elastictrain::comm::DataListener> open_listener() {
  auto listener = elastictrain::comm::DataListener::open({.host_key = "session-overhead"});
  if (!listener) panic(listener.error().message.c_str());
  return std::move(listener).value();
}

void run_bare_rank(std::uint32_t rank, std::unique_ptr<elastictrain::comm::DataListener> (&listeners)[2]) {
  elastictrain::comm::BuildSpec spec;
  spec.generation = 1;
  spec.rank = rank;
  spec.peers = {listeners[0]->endpoint(), listeners[1]->endpoint()};
  spec.deadline = Clock::now() + std::chrono::seconds(10);
  const elastictrain::comm::CancelToken cancel;
  auto built = elastictrain::comm::build_cpu_communicator(spec, *listeners[rank], cancel);
  if (!built) panic(built.error().message.c_str());
  Model model;
  Stopwatch watch;
  for (std::uint64_t step = 1; step <= kWarmUpSteps + kSteps; ++step) {
    model.compute();
    const elastictrain::Status reduced = built->communicator->all_reduce(model.gradient, {.scale = 0.5F});
    if (!reduced) panic(reduced.error().message.c_str());
    model.update();
    watch.step_done(step);
  }
  if (rank == 0) watch.report();
}

int run_bare() {
  std::unique_ptr<elastictrain::comm::DataListener> listeners[2] = {open_listener(), open_listener()};
  const pid_t child = ::fork();
  if (child < 0) panic("fork failed");
  run_bare_rank(child == 0 ? 1 : 0, listeners);
  if (child == 0) return 0;
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if ((argc == 2 || argc == 3) && std::strcmp(argv[1], "session") == 0) {
    return run_session(argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0);
  }
  if (argc == 2 && std::strcmp(argv[1], "bare") == 0) return run_bare();
  std::fprintf(stderr, "usage: session_overhead session [N]|bare\n");
  return 64;
}
