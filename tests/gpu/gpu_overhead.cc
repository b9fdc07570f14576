// One loop on a GPU, through the session or directly on NCCL: `gpu_overhead session [copies]` is a worker of a run,
// `gpu_overhead bare RANKS RANK ID [copies]` one rank without a run. Rank 0 prints steps_per_s=…
//
// A step is `copies` copies of 100 MB within the device, the sum of 100 MB, and one more copy for the update.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "elastictrain/session.hpp"
#include "tests/gpu/need.h"
#include "train/device/device_memory.h"
#include "train/device/event.h"
#include "train/device/stream.h"

namespace elastictrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kWarmUpSteps = 20;
constexpr std::uint64_t kSteps = 200;

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

// As a plain program does: everything in one stream, the host at most one step ahead of the device.
int run_bare(int ranks, int rank, const std::string& hex, int copies) {
  Model model(need(device::Device::open(0)), copies);
  const auto& nccl = *need(comm::NcclLibrary::get());
  const device::Device::Scope scope(*model.device());
  comm::NcclConfig config;
  config.blocking = 0;
  void* plane = nullptr;
  int state = nccl.init_rank(&plane, ranks, id_of(hex), rank, &config);
  while (state == comm::kNcclInProgress) nccl.async_error(plane, &state);
  if (state != comm::kNcclSuccess) need(nccl.error(state, "build a communicator"));
  const auto done = need(device::Event::create(model.device()));
  Stopwatch watch;
  for (std::uint64_t step = 1; step <= kWarmUpSteps + kSteps; ++step) {
    model.compute();
    if (step > 1) need(done.synchronize());
    const int code = nccl.all_reduce(model.gradient(), model.gradient(), floats(), comm::kNcclFloat32, comm::kNcclSum,
                                     plane, model.stream());
    if (code != comm::kNcclSuccess && code != comm::kNcclInProgress) need(nccl.error(code, "sum"));
    model.update();
    need(done.record(model.stream()));
    watch.step_done(step);
  }
  need(done.synchronize());
  if (rank == 0) watch.report();
  std::fflush(stdout);
  nccl.destroy(plane);
  return 0;
}

}  // namespace
}  // namespace elastictrain

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  if (argc >= 2 && std::strcmp(argv[1], "session") == 0) return elastictrain::run_session(number(2, 20));
  if (argc >= 5 && std::strcmp(argv[1], "bare") == 0) {
    return elastictrain::run_bare(number(2, 1), number(3, 0), argv[4], number(5, 20));
  }
  std::fprintf(stderr, "usage: gpu_overhead session [COPIES] | bare RANKS RANK ID [COPIES]\n");
  return 64;
}
