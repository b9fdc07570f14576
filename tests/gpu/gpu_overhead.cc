// One loop on a GPU, through the session or directly on NCCL: `gpu_overhead session [copies]` is a worker of a run,
// `gpu_overhead bare RANKS RANK ID [copies]` one rank without a run. Rank 0 prints steps_per_s=…
//
// A step is `copies` copies of 100 MB within the device, the sum of 100 MB, and one more copy for the update.
//
// `gpu_overhead overlap [PART]` is a worker of a run whose backward pass gives 25 buckets to the session: steps with
// the pass alone, with the sums alone and with both. Rank 0 prints the share of the sums' time that the pass hides. The
// last bucket, which nothing can hide, is one PART-th of the others (1).
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "elastictrain/session.hpp"
#include "tests/gpu/need.h"
#include "train/device/device_memory.h"
#include "train/device/stream.h"

namespace elastictrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kWarmUpSteps = 20;
constexpr std::uint64_t kSteps = 100;

std::size_t floats() {
  const char* wanted = std::getenv("GPU_OVERHEAD_FLOATS");
  return wanted == nullptr ? 25'000'000 : std::strtoull(wanted, nullptr, 10);
}

class Model {
 public:
  Model(std::shared_ptr<device::Device> device, int copies)
      : device_(std::move(device)),
        copies_(copies),
        stream_(need(device::Stream::create(device_))),
        weights_(need(device::DeviceMemory::allocate(device_, bytes()))),
        gradient_(need(device::DeviceMemory::allocate(device_, bytes()))) {
    need(weights_.fill_zero(stream()));
    need(gradient_.fill_zero(stream()));
    need(stream_.synchronize());
  }

  ~Model() { need(stream_.synchronize()); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  static std::size_t bytes() { return floats() * sizeof(float); }
  void compute() {
    for (int i = 0; i < copies_; ++i) copy(gradient_, weights_);
  }
  void update() { copy(weights_, gradient_); }
  void synchronize() const { need(stream_.synchronize()); }
  void* stream() const { return stream_.handle(); }
  const device::DeviceMemory& weights() const { return weights_; }
  float* gradient() const { return gradient_.as<float>(); }
  const std::shared_ptr<device::Device>& device() const { return device_; }

 private:
  void copy(const device::DeviceMemory& into, const device::DeviceMemory& from) {
    const device::Device::Scope scope(*device_);
    need(device_->cuda().check(device_->cuda().copy_on_device(into.address(), from.address(), bytes(), stream()),
                               "copy on the device"));
  }

  std::shared_ptr<device::Device> device_;
  int copies_;
  device::Stream stream_;
  device::DeviceMemory weights_;
  device::DeviceMemory gradient_;
};

class Stopwatch {
 public:
  void step_done(std::uint64_t step) {
    if (step == kWarmUpSteps) begin_ = Clock::now();
    if (step == kWarmUpSteps + kSteps) end_ = Clock::now();
  }
  void report() const {
    std::printf("steps_per_s=%.4f\n", kSteps / std::chrono::duration<double>(end_ - begin_).count());
  }

 private:
  Clock::time_point begin_;
  Clock::time_point end_;
};

int run_session(int copies) {
  Session session;
  Model model(need(device::Device::open(session.use_device())), copies);
  session.share_device_state("weights", model.weights().as<void>(), Model::bytes());
  session.set_data({.sample_count = 1'000'000'000, .batch = 16, .max_steps = kWarmUpSteps + kSteps});
  if (!session.start()) return 0;
  Stopwatch watch;
  while (auto batch = session.next_batch()) {
    model.compute();
    session.all_reduce_device(model.gradient(), floats(), model.stream());
    model.update();
    session.commit_step({.loss = 1});
    watch.step_done(batch->step);
  }
  if (session.rank() == 0) watch.report();
  return 0;
}

constexpr std::size_t kBuckets = 25;
constexpr std::uint64_t kOverlapRounds = 30;
constexpr double kPassPerSums = 1.5;

// The three kinds of steps take turns.
class Overlap {
 public:
  Overlap(Session& session, Model& model, std::size_t part_of_last)
      : session_(session), model_(model), part_of_last_(part_of_last) {}

  void step(std::uint64_t number) {
    const bool computes = number % 3 != 0;
    const bool sums = number % 3 != 1;
    const auto begin = Clock::now();
    const std::size_t each = floats() / kBuckets;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      for (int copy = 0; computes && copy < copies_; ++copy) model_.compute();
      const std::size_t count = i + 1 == kBuckets ? each / part_of_last_ : each;
      if (sums) session_.all_reduce_device_async(model_.gradient() + i * each, count, model_.stream());
    }
    if (sums) session_.wait_all_reduce();
    model_.synchronize();
    ms_[number % 3].push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    if (number == 2 * 3) settle_length();
  }
  void report() {
    const double sums = median(0), pass = median(1), both = median(2);
    std::printf("hidden_percent=%.2f sums_ms=%.3f pass_ms=%.3f both_ms=%.3f\n", 100 * (pass + sums - both) / sums, sums,
                pass, both);
  }

 private:
  // The pass is longer than the sums on any device, and equally long on all ranks.
  void settle_length() {
    copies_ = std::max(1, static_cast<int>(std::ceil(kPassPerSums * ms_[0].back() / ms_[1].back())));
    session_.broadcast(&copies_, sizeof copies_);
    for (auto& kind : ms_) kind.clear();
  }
  double median(std::size_t kind) {
    auto& all = ms_[kind];
    std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
    return all[all.size() / 2];
  }

  Session& session_;
  Model& model_;
  std::size_t part_of_last_;
  int copies_ = 1;
  std::array<std::vector<double>, 3> ms_;  // sums alone, pass alone, both
};

int run_overlap(std::size_t part_of_last) {
  Session session;
  Model model(need(device::Device::open(session.use_device())), 1);
  session.share_device_state("weights", model.weights().as<void>(), Model::bytes());
  session.set_data({.sample_count = 1'000'000'000, .batch = 16, .max_steps = 3 * kOverlapRounds});
  if (!session.start()) return 0;
  Overlap overlap(session, model, part_of_last);
  while (auto batch = session.next_batch()) {
    overlap.step(batch->step);
    session.commit_step({.loss = 1});
  }
  if (session.rank() == 0) overlap.report();
  return 0;
}

// As a plain program does: everything in one stream, the host at most one step ahead of the device.
int run_bare(int ranks, int rank, const std::string& hex, int copies) {
  Model model(need(device::Device::open(0)), copies);
  const auto& nccl = *need(comm::NcclLibrary::get());
  const device::Device::Scope scope(*model.device());
  comm::NcclConfig config;
  config.blocking = 0;
  void* plane = nullptr;
  const auto settle = [&](int code, const char* doing) {
    const int state = settled(nccl, plane, code, [] { return true; });
    if (state != comm::kNcclSuccess) need(nccl.error(state, doing));
  };
  settle(nccl.init_rank(&plane, ranks, id_of(hex), rank, &config), "build a communicator");
  const auto done = need(device::Event::create(model.device()));
  Stopwatch watch;
  for (std::uint64_t step = 1; step <= kWarmUpSteps + kSteps; ++step) {
    model.compute();
    if (step > 1) need(done.synchronize());
    settle(nccl.all_reduce(model.gradient(), model.gradient(), floats(), comm::kNcclFloat32, comm::kNcclSum, plane,
                           model.stream()),
           "sum");
    model.update();
    need(done.record(model.stream()));
    watch.step_done(step);
  }
  need(done.synchronize());
  if (rank == 0) watch.report();
  std::fflush(stdout);
  settle(nccl.finalize(plane), "finalize");
  nccl.destroy(plane);
  return 0;
}

}  // namespace
}  // namespace elastictrain

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  if (argc >= 2 && std::strcmp(argv[1], "session") == 0) return elastictrain::run_session(number(2, 20));
  if (argc >= 2 && std::strcmp(argv[1], "overlap") == 0) {
    return elastictrain::run_overlap(static_cast<std::size_t>(std::max(1, number(2, 1))));
  }
  if (argc >= 5 && std::strcmp(argv[1], "bare") == 0) {
    return elastictrain::run_bare(number(2, 1), number(3, 0), argv[4], number(5, 20));
  }
  std::fprintf(stderr, "usage: gpu_overhead session [COPIES] | overlap [PART] | bare RANKS RANK ID [COPIES]\n");
  return 64;
}
