// One process that executes NCCL commands from its standard input, one per line, and answers each with a JSON line.
// scripts/bench/gpu_check.py starts several of them on one GPU (a distinct NCCL_HOSTID each) to find out how NCCL
// behaves when one is killed, stopped or late.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/need.h"
#include "train/device/device_memory.h"
#include "train/device/kernel_module.h"
#include "train/device/stream.h"

namespace elastictrain {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::string hex_of(const comm::NcclUniqueId& id) {
  std::string text;
  char digits[3];
  for (const char byte : id.internal) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    text += digits;
  }
  return text;
}

// A communicator with its stream and a thread that sums on it in an endless loop.
struct Plane {
  void* handle = nullptr;
  std::mutex inside;  // one thread at a time may be inside NCCL
  device::Stream stream;
  device::DeviceMemory data;
  device::Event done;
  device::PinnedMemory flag;  // a copy to other memory would wait for the sum before it, for ever if a peer is lost
  std::thread loop;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> sums{0};
  std::atomic<double> longest_ms{0};
  std::atomic<int> failed{0};
};

class Rank {
 public:
  Rank() : device_(need(device::Device::open(0))), nccl_(*need(comm::NcclLibrary::get())) {}

  bool obey(const std::string& line) {
    std::istringstream words(line);
    std::string verb, name;
    words >> verb >> name;
    if (verb == "quit") return false;
    if (verb == "facts") facts();
    if (verb == "id") make_id();
    if (verb == "resources") resources();
    if (verb == "init") init(name, words);
    if (verb == "loop") begin_loop(name, words);
    if (verb == "sum") sum(name, words);
    if (verb == "busy") keep_busy(name);
    if (verb == "kernels") kernels(name);
    if (verb == "stats") stats(name);
    if (verb == "stop") stop(name);
    if (verb == "error") error(name);
    if (verb == "abort") end(name, words, nccl_.abort);
    if (verb == "destroy") end(name, words, nccl_.destroy);
    if (verb == "revoke") revoke(name);
    if (verb == "shrink") shrink(name, words);
    return true;
  }

 private:
  template <class... Values>
  void say(const char* format, Values... values) {
    std::printf(format, values...);
    std::printf("\n");
    std::fflush(stdout);
  }

  void facts() {
    int driver = 0;
    device_->cuda().driver_version(&driver);
    say(R"({"gpu": "%s", "cuda": %d, "nccl": "%s", "path": "%s", "shrink": %d, "revoke": %d})", device_->name().c_str(),
        driver, nccl_.version_text().c_str(), nccl_.path.c_str(), nccl_.shrink != nullptr, nccl_.revoke != nullptr);
  }

  void make_id() {
    comm::NcclUniqueId id{};
    const int code = nccl_.get_unique_id(&id);
    say(R"({"code": %d, "id": "%s"})", code, hex_of(id).c_str());
  }

  void resources() {
    const auto entries = [](const char* folder) {
      return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder), {}));
    };
    const device::Device::Scope scope(*device_);
    std::size_t free_bytes = 0, total_bytes = 0;
    device_->cuda().memory_info(&free_bytes, &total_bytes);
    say(R"({"descriptors": %d, "threads": %d, "gpu_bytes": %zu})", entries("/proc/self/fd"), entries("/proc/self/task"),
        total_bytes - free_bytes);
  }

  // kNcclInProgress after `limit_ms`.
  int settle(void* handle, int code, double limit_ms) {
    const auto begin = Clock::now();
    return settled(nccl_, handle, code, [&] { return ms_since(begin) < limit_ms; });
  }

  // init NAME ID RANKS RANK [LIMIT_MS]
  void init(const std::string& name, std::istream& words) {
    std::string id;
    int ranks = 0, rank = 0;
    words >> id >> ranks >> rank;
    const device::Device::Scope scope(*device_);
    auto& plane = planes_[name];
    plane.stream = need(device::Stream::create(device_));
    plane.done = need(device::Event::create(device_));
    comm::NcclConfig config;
    config.blocking = 0;
    config.comm_name = names_.insert(name).first->c_str();
    const auto begin = Clock::now();
    double limit_ms = 60'000;
    words >> limit_ms;
    const int code = settle(plane.handle, nccl_.init_rank(&plane.handle, ranks, id_of(id), rank, &config), limit_ms);
    say(R"({"code": %d, "ms": %.3f})", code, ms_since(begin));
  }

  // loop NAME FLOATS
  void begin_loop(const std::string& name, std::istream& words) {
    std::size_t floats = 0;
    words >> floats;
    auto& plane = planes_[name];
    plane.data = need(device::DeviceMemory::allocate(device_, floats * sizeof(float)));
    plane.flag = need(device::PinnedMemory::allocate(device_, sizeof(float)));
    need(plane.data.fill_zero(plane.stream.handle()));
    plane.loop = std::thread([this, &plane, floats] { sum_without_end(plane, floats); });
    say(R"({"code": 0})");
  }

  // The first element is the number of ranks that want to stop: all ranks see it in the same sum.
  void sum_without_end(Plane& plane, std::size_t floats) {
    const device::Device::Scope scope(*device_);
    auto& flag = *plane.flag.as<float>();
    auto last = Clock::now();
    while (true) {
      flag = plane.stop ? 1.0F : 0.0F;
      need(plane.data.copy_in(&flag, sizeof flag, plane.stream.handle()));
      auto* const data = plane.data.as<void>();
      if (const int code = sum_once(plane, data, floats)) return plane.failed.store(code);
      need(plane.data.copy_out(&flag, sizeof flag, plane.stream.handle()));
      need(plane.done.record(plane.stream.handle()));
      while (plane.done.query() == device::kCudaNotReady) {
        if (plane.failed != 0) return;
        std::this_thread::yield();
      }
      const double gap = ms_since(last);
      last = Clock::now();
      if (++plane.sums > 1 && gap > plane.longest_ms) plane.longest_ms = gap;
      if (flag > 0) return;
    }
  }

  // The error of the sum, or of the experiment that ends the loop.
  int sum_once(Plane& plane, void* data, std::size_t floats) {
    const std::lock_guard lock(plane.inside);
    const int code = settled(
        nccl_, plane.handle,
        nccl_.all_reduce(data, data, floats, comm::kNcclFloat32, comm::kNcclSum, plane.handle, plane.stream.handle()),
        [&] { return plane.failed == 0; });
    return code == comm::kNcclInProgress ? plane.failed.load() : code;
  }

  // sum NAME FLOATS: until NCCL has given it to the device, and until it is done.
  void sum(const std::string& name, std::istream& words) {
    std::size_t floats = 0;
    words >> floats;
    const device::Device::Scope scope(*device_);
    auto& plane = planes_[name];
    if (plane.data.bytes() < floats * sizeof(float)) {
      plane.data = need(device::DeviceMemory::allocate(device_, floats * sizeof(float)));
    }
    need(plane.data.fill_zero(plane.stream.handle()));
    need(plane.stream.synchronize());
    const auto begin = Clock::now();
    const int code = sum_once(plane, plane.data.as<void>(), floats);
    const double started_ms = ms_since(begin);
    need(plane.stream.synchronize());
    say(R"({"code": %d, "started_ms": %.3f, "ms": %.3f})", code, started_ms, ms_since(begin));
  }

  // busy MS: that much work in a stream of its own, as copies of much memory: a queue takes about a thousand of them.
  void keep_busy(const std::string& wanted) {
    const double wanted_ms = std::stod(wanted);
    std::size_t free_bytes = 0, total_bytes = 0;
    const device::Device::Scope scope(*device_);
    device_->cuda().memory_info(&free_bytes, &total_bytes);
    const std::size_t bytes = std::min<std::size_t>(free_bytes / 16, std::size_t{4} << 30);
    if (!busy_.handle()) busy_ = need(device::Stream::create(device_));
    if (busy_memory_.bytes() == 0) busy_memory_ = need(device::DeviceMemory::allocate(device_, 2 * bytes));
    const auto copy = [&] {
      need(device_->cuda().check(
          device_->cuda().copy_on_device(busy_memory_.address(), busy_memory_.address() + bytes, bytes, busy_.handle()),
          "copy on the device"));
    };
    copy();
    need(busy_.synchronize());
    const auto begin = Clock::now();
    copy();
    need(busy_.synchronize());
    const double one_ms = std::max(0.05, ms_since(begin));
    const int copies = std::min(900, static_cast<int>(wanted_ms / one_ms));
    for (int i = 0; i < copies; ++i) copy();
    say(R"({"ms": %.3f})", copies * one_ms);
  }

  // kernels FLOATS: the memory that the communicator's kernels move.
  void kernels(const std::string& wanted) {
    const std::size_t floats = std::stoull(wanted);
    const auto stream = need(device::Stream::create(device_));
    const auto data = need(device::DeviceMemory::allocate(device_, floats * sizeof(float)));
    const auto keep = need(device::DeviceMemory::allocate(device_, floats * sizeof(float)));
    const auto sums = need(device::DeviceMemory::allocate(device_, device::kKernelBlocks * sizeof(double)));
    need(data.fill_zero(stream.handle()));
    auto* const module = need(device::KernelModule::get(device_, device::kCommunicatorKernels));
    const auto prepare = need(module->function("et_prepare"));
    const auto square_sum = need(module->function("et_square_sum"));
    const auto count = static_cast<unsigned long long>(floats);
    const auto gigabytes_per_s = [&](int passes, const auto& launch) {
      const auto begin = need(device::Event::create(device_, true));
      const auto end = need(device::Event::create(device_, true));
      constexpr int kRounds = 20;
      need(launch());
      need(begin.record(stream.handle()));
      for (int i = 0; i < kRounds; ++i) need(launch());
      need(end.record(stream.handle()));
      need(end.synchronize());
      const double bytes = double(kRounds) * passes * double(floats) * sizeof(float);
      return bytes / 1e9 / std::max(1e-9, need(end.seconds_since(begin)));
    };
    const double prepared = gigabytes_per_s(3, [&] {
      return module->launch(prepare, stream.handle(), data.as<float>(), keep.as<float>(), count, 0.5F, 0,
                            sums.as<double>());
    });
    const double squared = gigabytes_per_s(1, [&] {
      return module->launch(square_sum, stream.handle(), static_cast<const float*>(data.as<float>()), count,
                            sums.as<double>());
    });
    say(R"({"prepare_gb_per_s": %.1f, "square_sum_gb_per_s": %.1f})", prepared, squared);
  }

  void stats(const std::string& name) {
    auto& plane = planes_[name];
    say(R"({"sums": %llu, "longest_ms": %.3f, "failed": %d})", static_cast<unsigned long long>(plane.sums),
        plane.longest_ms.exchange(0), plane.failed.load());
  }

  void stop(const std::string& name) {
    auto& plane = planes_[name];
    plane.stop = true;
    if (plane.loop.joinable()) plane.loop.join();
    stats(name);
  }

  void error(const std::string& name) {
    int code = 0;
    auto& plane = planes_[name];
    const std::lock_guard lock(plane.inside);
    const int asked = nccl_.async_error(plane.handle, &code);
    say(R"({"code": %d, "asked": %d})", code, asked);
  }

  // abort NAME LIMIT_MS: on a thread that may be abandoned.
  void end(const std::string& name, std::istream& words, int (*call)(void*)) {
    double limit_ms = 0;
    words >> limit_ms;
    auto& plane = planes_[name];
    leave_loop(plane);
    const auto begin = Clock::now();
    const auto code = std::make_shared<std::atomic<int>>(-2);
    std::thread([call, code, handle = plane.handle] { *code = call(handle); }).detach();
    while (*code == -2 && ms_since(begin) < limit_ms) std::this_thread::sleep_for(std::chrono::microseconds(100));
    say(R"({"code": %d, "ms": %.3f})", code->load(), ms_since(begin));
    if (*code == -2) return;
    (void)plane.stream.synchronize();  // the ended communicator releases the memory
    planes_.erase(name);
  }

  // No other thread may be inside NCCL when a communicator is ended. The device continues its work.
  void leave_loop(Plane& plane) {
    plane.failed = comm::kNcclSystemError;
    if (plane.loop.joinable()) plane.loop.join();
  }

  void revoke(const std::string& name) {
    if (nccl_.revoke == nullptr) return say(R"({"code": -3})");
    auto& plane = planes_[name];
    leave_loop(plane);
    const auto begin = Clock::now();
    // The loop may have left a call that is not done, before which Revoke is refused.
    (void)settle(plane.handle, comm::kNcclInProgress, 5'000);
    const int code = settle(plane.handle, nccl_.revoke(plane.handle, 0), 5'000);
    say(R"({"code": %d, "ms": %.3f})", code, ms_since(begin));
  }

  // shrink NAME NEW_NAME ABORT EXCLUDED…
  void shrink(const std::string& name, std::istream& words) {
    std::string made;
    int abort = 0, excluded = 0;
    std::vector<int> exclude;
    words >> made >> abort;
    while (words >> excluded) exclude.push_back(excluded);
    if (nccl_.shrink == nullptr) return say(R"({"code": -3})");
    auto& parent = planes_[name];
    auto& plane = planes_[made];
    plane.stream = need(device::Stream::create(device_));
    plane.done = need(device::Event::create(device_));
    const auto begin = Clock::now();
    comm::NcclConfig config;
    config.blocking = 0;
    // Polled on the parent: the new handle does not exist before it is done.
    const int code = settle(
        parent.handle,
        nccl_.shrink(parent.handle, exclude.data(), static_cast<int>(exclude.size()), &plane.handle, &config, abort),
        10'000);
    say(R"({"code": %d, "ms": %.3f, "made": %d})", code, ms_since(begin), plane.handle != nullptr);
  }

  const std::shared_ptr<device::Device> device_;
  const comm::NcclLibrary& nccl_;
  std::map<std::string, Plane> planes_;
  std::set<std::string> names_;
  device::Stream busy_;
  device::DeviceMemory busy_memory_;
};

}  // namespace
}  // namespace elastictrain

int main() {
  elastictrain::Rank rank;
  for (std::string line; std::getline(std::cin, line);) {
    if (!rank.obey(line)) break;
  }
  std::_Exit(0);  // NCCL's work on abandoned threads ends with the process
}
