// A session on a device, alone: which device it uses, whose stream it waits for, what it refuses. With others it runs
// through the scenarios of changes and losses (TEST_WORKER_DEVICE).
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device_arrays.h"

namespace elastictrain::test {
namespace {

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

std::string refusal(const auto& call) {
  try {
    call();
  } catch (const SessionError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a worker takes the GPU of its slot, and those beyond the GPUs are hosts of their own to NCCL") {
  const Variable key("ELASTICTRAIN_HOST_KEY", "here");
  const auto device_of = [](const char* slot, int ordinal = -1) {
    const Variable variable("ELASTICTRAIN_SLOT", slot);
    ::unsetenv("NCCL_HOSTID");
    return Session().use_device(ordinal);
  };
  CHECK(device_of("0") == 0);
  CHECK(std::getenv("NCCL_HOSTID") == nullptr);
  CHECK(device_of("1") == 1);
  CHECK(std::getenv("NCCL_HOSTID") == nullptr);
  CHECK(device_of("4") == 0);
  CHECK(std::string(std::getenv("NCCL_HOSTID")) == "here-2");
  CHECK(device_of("1", 0) == 0);
  CHECK(std::getenv("NCCL_HOSTID") == nullptr);
  CHECK(device_of("3", 0) == 0);  // as a framework chooses it
  CHECK(std::string(std::getenv("NCCL_HOSTID")) == "here-1");
  ::unsetenv("NCCL_HOSTID");
}

TEST_CASE("beside the session's device there is no state that the program copies, and no word of its own on memory") {
  Session session;
  session.use_device();
  const auto nothing = [](auto, auto) { return std::string(); };
  constexpr std::uint64_t one = 1;
  CHECK_THROWS_AS(session.share_tensor_through({.read = nothing, .write = nothing}, "weight", "F32", {&one, 1}),
                  SessionError);
  CHECK_THROWS_AS(session.device_memory(2, 1), SessionError);
}

TEST_CASE("alone, a sum of its own gradient is that gradient, after whatever the stream holds before it") {
  Session session;
  DeviceArrays arrays(session, 1 << 20);
  session.set_data({.sample_count = 4, .batch = 4});
  REQUIRE(session.start());
  REQUIRE(session.next_batch());
  std::vector<float> gradient(1 << 20, 3.0F);
  arrays.put_gradient(gradient);  // not waited for
  session.all_reduce_device_async(arrays.gradient(), gradient.size() / 2, arrays.stream());
  session.all_reduce_device(arrays.gradient() + gradient.size() / 2, gradient.size() / 2, arrays.stream());
  std::fill(gradient.begin(), gradient.end(), 0.0F);
  arrays.get_gradient(gradient);
  CHECK(gradient == std::vector<float>(1 << 20, 3.0F));
  session.commit_step({.loss = 1});
  CHECK(session.last_step().gradient_norm == doctest::Approx(3.0 * 1024));
}

TEST_CASE("alone, a gradient of 16 bits stays as it is, and its norm is measured") {
  constexpr std::size_t kCount = 1 << 10;
  const auto two_ones = std::bit_cast<float>(0x3f803f80U);  // 1 and 1 in bfloat16
  Session session;
  DeviceArrays arrays(session, kCount / 2);
  session.set_data({.sample_count = 8, .batch = 4});
  REQUIRE(session.start());
  for (int step = 1; step <= 2; ++step) {
    REQUIRE(session.next_batch());
    std::vector<float> gradient(kCount / 2, two_ones);
    arrays.put_gradient(gradient);
    session.all_reduce_device_async(arrays.gradient(), kCount, DataType::kBFloat16, arrays.stream());
    session.wait_all_reduce();
    std::fill(gradient.begin(), gradient.end(), 0.0F);
    arrays.get_gradient(gradient);
    CHECK(gradient == std::vector<float>(kCount / 2, two_ones));
    session.commit_step({.loss = 1});
    CHECK(session.last_step().gradient_norm == doctest::Approx(32));
  }
}

std::size_t pieces_of_memory() {
  using Alive = void (*)(std::size_t*, std::size_t*, std::size_t*);
  void* const library = ::dlopen(std::getenv("ELASTICTRAIN_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  const auto call = reinterpret_cast<Alive>(::dlsym(library, "standin_cuda_alive"));
  REQUIRE((call != nullptr));
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t pieces = 0;
  call(&streams, &events, &pieces);
  return pieces;
}

TEST_CASE("alone, the norm of a gradient is measured on the device, not in a copy in host memory") {
  Session session;
  DeviceArrays arrays(session, 1 << 20);
  session.set_data({.sample_count = 4, .batch = 4});
  REQUIRE(session.start());
  REQUIRE(session.next_batch());
  arrays.put_gradient(std::vector<float>(1 << 20, 3.0F));
  const std::size_t before = pieces_of_memory();
  session.all_reduce_device_async(arrays.gradient(), 1 << 20, arrays.stream());
  session.wait_all_reduce();
  CHECK(pieces_of_memory() == before);
  session.commit_step({.loss = 1});
  CHECK(session.last_step().gradient_norm == doctest::Approx(3.0 * 1024));
}

// Puts work into a stream of the stand-in.
void enqueue(void* stream, void (*work)(void*), void* argument) {
  using Enqueue = int (*)(void*, void (*)(void*), void*);
  void* const library = ::dlopen(std::getenv("ELASTICTRAIN_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  const auto call = reinterpret_cast<Enqueue>(::dlsym(library, "standin_cuda_enqueue"));
  REQUIRE((call != nullptr));
  call(stream, work, argument);
}

// ... that takes `time`.
void keep_busy(void* stream, std::chrono::milliseconds time) {
  static std::chrono::milliseconds wanted;
  wanted = time;
  enqueue(
      stream, [](void*) { std::this_thread::sleep_for(wanted); }, nullptr);
}

TEST_CASE("state that is still on its way in a stream of the program is there when training starts") {
  Session session;
  DeviceArrays arrays(session, 16);
  session.set_data({.sample_count = 4, .batch = 4});
  std::atomic<bool> written{false};
  keep_busy(arrays.stream(), std::chrono::milliseconds(50));
  enqueue(
      arrays.stream(), [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &written);
  REQUIRE(session.start());
  CHECK(written);
}

TEST_CASE("the device's work before its last sum counts as compute, whichever thread waits for it") {
  constexpr std::chrono::milliseconds kPass{50};
  for (const auto& [in_background, host_sums] : {std::pair(false, 0), std::pair(true, 0), std::pair(true, 1)}) {
    CAPTURE(in_background);
    CAPTURE(host_sums);
    Session session;
    DeviceArrays arrays(session, 16);
    session.set_data({.sample_count = 4, .batch = 4});
    REQUIRE(session.start());
    REQUIRE(session.next_batch());
    keep_busy(arrays.stream(), kPass);
    std::vector<float> small(4, 1.0F);
    if (in_background) {
      session.all_reduce_device_async(arrays.gradient(), 16, arrays.stream());
      if (host_sums != 0) session.all_reduce_async(small.data(), small.size());
      session.wait_all_reduce();
    } else {
      session.all_reduce_device(arrays.gradient(), 16, arrays.stream());
    }
    session.commit_step();
    CHECK(session.monitors().compute_us >= 1000.0 * kPass.count());
  }
}

TEST_CASE("alone, the host goes on while the device computes the pass, and is one step ahead at most") {
  Session session;
  DeviceArrays arrays(session, 16);
  session.use_stream_order();
  session.set_data({.sample_count = 12, .batch = 4});
  REQUIRE(session.start());
  struct Passes {
    std::atomic<bool> may_end{true};
    std::atomic<int> ended{0};
  } passes;
  const auto step = [&] {
    REQUIRE(session.next_batch());
    enqueue(
        arrays.stream(),
        [](void* mine) {
          auto& all = *static_cast<Passes*>(mine);
          const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(10);
          while (!all.may_end && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
          ++all.ended;
        },
        &passes);
    session.all_reduce_device_async(arrays.gradient(), 16, arrays.stream());
    session.wait_all_reduce();
    session.commit_step();
  };
  step();  // the norm of its gradient is measured
  CHECK(passes.ended == 1);
  passes.may_end = false;
  step();
  CHECK(passes.ended == 1);
  std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    passes.may_end = true;
  });
  step();
  CHECK(passes.may_end);  // not before it was let go
  CHECK(passes.ended >= 2);
}

TEST_CASE("alone, a program that has not said how it uses its gradients has them when the wait returns") {
  for (const bool two_streams : {false, true}) {
    CAPTURE(two_streams);
    Session session;
    DeviceArrays arrays(session, 16);
    if (two_streams) session.use_stream_order();
    session.set_data({.sample_count = 12, .batch = 4});
    REQUIRE(session.start());
    std::atomic<int> ended{0};
    for (int step = 1; step <= 3; ++step) {
      REQUIRE(session.next_batch());
      const auto pass = [](void* count) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ++*static_cast<std::atomic<int>*>(count);
      };
      void* const first = two_streams ? arrays.second_stream() : arrays.stream();
      enqueue(first, pass, &ended);
      session.all_reduce_device_async(arrays.gradient(), 8, first);
      session.all_reduce_device_async(arrays.gradient() + 8, 8, arrays.stream());
      session.wait_all_reduce();
      CHECK(ended == step);
      session.commit_step();
    }
  }
}

TEST_CASE("what the host does once the gradient is there is not compute") {
  using Clock = std::chrono::steady_clock;
  Session session;
  DeviceArrays arrays(session, 16);
  session.set_data({.sample_count = 4, .batch = 4});
  REQUIRE(session.start());
  const auto before = Clock::now();
  REQUIRE(session.next_batch());
  session.all_reduce_device_async(arrays.gradient(), 16, arrays.stream());
  std::vector<float> weights(16), momentum(16);
  arrays.get_state(weights, momentum);  // waits for the stream, and reads nothing that is being summed
  const std::chrono::duration<double, std::micro> seen = Clock::now() - before;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  session.wait_all_reduce();
  session.commit_step();
  CHECK(session.monitors().compute_us <= seen.count());
}

TEST_CASE("a stream that records a CUDA graph is refused with words") {
  using Capture = void (*)(int);
  Session session;
  DeviceArrays arrays(session, 16);
  session.set_data({.sample_count = 4, .batch = 4});
  REQUIRE(session.start());
  REQUIRE(session.next_batch());
  void* const library = ::dlopen(std::getenv("ELASTICTRAIN_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  const auto capture = reinterpret_cast<Capture>(::dlsym(library, "standin_cuda_capture"));
  REQUIRE((capture != nullptr));
  capture(1);
  const std::string refused = refusal([&] { session.all_reduce_device_async(arrays.gradient(), 16, arrays.stream()); });
  capture(0);
  CHECK(refused.find("CUDA graph") != std::string::npos);
}

TEST_CASE("device calls out of order say what to do") {
  Session session;
  float value = 0;
  CHECK(refusal([&] { session.share_device_state("w", &value, sizeof value); }).find("use_device()") !=
        std::string::npos);
  session.share_state("v", &value, sizeof value);
  CHECK(refusal([&] { session.use_device(0); }).find("choose the device first") != std::string::npos);
  session.set_data({.sample_count = 4});
  session.start();
  CHECK(refusal([&] { session.use_device(0); }).find("before") != std::string::npos);
  CHECK(refusal([&] { session.all_reduce_device(&value, 1); }).find("next_batch()") != std::string::npos);
  REQUIRE(session.next_batch());
  CHECK(refusal([&] { session.all_reduce_device(&value, 1); }).find("use_device()") != std::string::npos);
  CHECK(refusal([&] { session.all_reduce_device_async(&value, 1); }).find("use_device()") != std::string::npos);
}

TEST_CASE("a missing device is refused with a message") {
  Session session;
  CHECK_FALSE(refusal([&] { session.use_device(4711); }).empty());
  CHECK(session.use_device(0) == 0);
  CHECK(refusal([&] { session.use_device(0); }).find("one device") != std::string::npos);
}

}  // namespace
}  // namespace elastictrain::test
