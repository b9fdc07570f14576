// The ends of NCCL's communicators, on its stand-in: aborts that never return or wait for others, builds that leak,
// devices that are broken afterwards, orderly ends, and what many generations leave behind.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "tests/contract/comm/device_bucket.h"
#include "tests/contract/comm/nccl_traps.h"
#include "tests/contract/comm/world.h"

namespace elastictrain::comm::testing {
namespace {

void wait_until(const std::function<bool()>& condition) {
  const auto until = steady_clock::now() + seconds(20);
  while (!condition() && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
  CHECK(condition());
}

// Two ranks, the first of which is in a sum to which the other one never comes.
struct HalfSum {
  HalfSum(World& world, std::atomic<int>& reports, const std::function<StepClock()>& step_clock = {}) {
    all = build_all(world, 1, [&](auto) {
      auto options = options_until(seconds(20));
      options.step_clock = step_clock;
      options.on_broken = [&](const std::string&) { ++reports; };
      return options;
    });
    use_device_of(0);
    bucket.emplace(10);
    REQUIRE(all[0].communicator->device_sums()->start_sum(bucket->reduce()).ok());
  }

  std::vector<BuildOutcome> all;
  std::optional<Bucket> bucket;
};

TEST_CASE("an abort that never returns, of a communicator that the device has left, is left to its thread") {
  World world(shm(2));
  std::atomic<int> reports{0};
  {
    HalfSum half(world, reports);
    const Faults faults("stall-revoke@0,join-abort@0");
    half.all[0].communicator->abort();
    half.all[0].communicator->abort();
    CHECK(half.all[0].communicator->barrier().error().code == ErrorCode::kAborted);
    CHECK(half.all[0].communicator->device_sums()->finish_sums().error().code == ErrorCode::kAborted);
    CHECK(longest_left_nccl_end() > milliseconds(0));
    CHECK_FALSE(nccl_end_that_holds_the_device());
    half.bucket->put(std::vector<float>(10, 1.0F));
    half.all.clear();
    auto next = build_all(world, 2, [](auto) { return options_until(seconds(20)); });
    std::thread other([&] {
      use_device_of(1);
      CHECK(next[1].communicator->device_sums()->all_reduce_device(Bucket(std::vector<float>(10, 1.0F)).reduce()));
    });
    CHECK(next[0].communicator->device_sums()->all_reduce_device(half.bucket->reduce()));
    other.join();
    CHECK(half.bucket->data() == std::vector<float>(10, 2.0F));
    CHECK(unfinished_nccl_ends() > 0);
  }
  CHECK(longest_left_nccl_end() == milliseconds(0));
  CHECK(reports == 0);
}

TEST_CASE("no rank frees what kernels of others may still read before those have ended") {
  World world(shm(3));
  std::atomic<int> reports{0};
  auto all = build_all(world, 1, [&](auto) {
    auto options = options_until(seconds(20));
    options.on_broken = [&](const std::string&) { ++reports; };
    return options;
  });
  std::vector<Bucket> buckets;
  const Faults faults("mapped-memory");
  for (std::uint32_t rank = 0; rank < 2; ++rank) {  // the third never comes
    use_device_of(rank);
    REQUIRE(all[rank].communicator->device_sums()->start_sum(buckets.emplace_back(10).reduce()).ok());
  }
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    all[rank].communicator->abort();
    std::this_thread::sleep_for(milliseconds(50));
  }
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    use_device_of(rank);
    CHECK(all[rank].communicator->device_sums()->finish_sums().error().code == ErrorCode::kAborted);
    buckets[rank].put(std::vector<float>(10, 1.0F));
    CHECK(buckets[rank].data() == std::vector<float>(10, 1.0F));
  }
  all.clear();
  REQUIRE(await_nccl_ends(seconds(20)));
  CHECK(counters().alive == 0);
  CHECK(reports == 0);
}

TEST_CASE("while the device works for what was aborted, the caller's memory is not given back") {
  World world(shm(2));
  std::atomic<int> reports{0};
  HalfSum half(world, reports);
  std::atomic<bool> returned{false};
  std::thread caller;
  {
    const Faults faults("wedge-abort@0");
    half.all[0].communicator->abort();
    caller = std::thread([&] {
      use_device_of(0);
      CHECK(half.all[0].communicator->device_sums()->finish_sums().error().code == ErrorCode::kAborted);
      returned = true;
    });
    wait_until([] { return nccl_end_that_holds_the_device().has_value(); });
    CHECK(nccl_end_that_holds_the_device().value_or("").find("traps:1 within 200 ms") != std::string::npos);
    std::this_thread::sleep_for(milliseconds(300));
    CHECK_FALSE(returned);
    CHECK(longest_left_nccl_end() == milliseconds(0));
  }
  caller.join();
  wait_until([] { return !nccl_end_that_holds_the_device(); });
  CHECK(reports == 0);
}

// The time that the end of a communicator had when it was called late.
milliseconds limit_of_end(World& world, const std::function<StepClock()>& step_clock) {
  std::atomic<int> reports{0};
  HalfSum half(world, reports, step_clock);
  const Faults faults("wedge-abort@0");
  half.all[0].communicator->abort();
  wait_until([] { return nccl_end_that_holds_the_device().has_value(); });
  const std::string said = nccl_end_that_holds_the_device().value_or("");
  const std::string before = "NCCL did not end traps:1 within ";
  REQUIRE(said.starts_with(before));
  return milliseconds(std::stoi(said.substr(before.size())));
}

TEST_CASE("an abort may take at least ten of the learned steps") {
  World world(shm(2));
  std::atomic<std::uint64_t> steps{0};
  CHECK(limit_of_end(world, [&] { return StepClock{++steps, milliseconds(50)}; }) == milliseconds(500));
}

TEST_CASE("an abort may take twice as long as the build") {
  World world(shm(2));
  standin_nccl_faults("stall-init");
  std::thread later([] {
    std::this_thread::sleep_for(milliseconds(1'000));
    standin_nccl_faults("none");
  });
  CHECK(limit_of_end(world, {}) > milliseconds(1'500));
  later.join();
}

TEST_CASE("an abort that waits for the caller's own work costs no process, however long that takes") {
  World world(shm(2));
  std::atomic<int> reports{0};
  auto all = build_all(world, 1, [&](auto) {
    auto options = options_until(seconds(20));
    options.on_broken = [&](const std::string&) { ++reports; };
    return options;
  });
  std::atomic<bool> done{false};
  {
    use_device_of(0);
    Bucket bucket(10);
    standin_cuda_enqueue(
        bucket.stream(),
        [](void* flag) {
          while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::sleep_for(milliseconds(1));
        },
        &done);
    REQUIRE(all[0].communicator->device_sums()->start_sum(bucket.reduce()).ok());
    all[0].communicator->abort();
    std::this_thread::sleep_for(3 * options_until(seconds(0)).abort_deadline);
    CHECK(unfinished_nccl_ends() > 0);
    CHECK(reports == 0);
    done = true;
    CHECK_FALSE(all[0].communicator->device_sums()->finish_sums().ok());
  }
  all.clear();
  CHECK(await_nccl_ends(seconds(20)));
  CHECK(reports == 0);
}

std::shared_ptr<NcclComm> begin_alone(const NcclUniqueId& id, std::atomic<int>& reports, std::uint32_t ranks = 2) {
  NcclInit init{.ids = {id}, .rank = 0, .ranks = ranks, .name = "alone", .abort_deadline = milliseconds(200)};
  init.on_broken = [&](const std::string&) { ++reports; };
  const auto comm = NcclComm::begin(**NcclLibrary::get(), *device::Device::open(0), init);
  if (!comm) panic(comm.error().message.c_str());
  return *comm;
}

TEST_CASE("builds whose peer never comes are counted: NCCL frees nothing of them") {
  World world(shm(2));
  const int abandoned = abandoned_nccl_builds();
  const auto before = counters();
  const CancelToken never;
  const auto helper = UniqueIdHelper::start(unique_id_command(), 5, never, steady_clock::now() + seconds(20));
  REQUIRE(helper.ok());
  std::atomic<int> reports{0};
  for (const NcclUniqueId& id : helper->ids()) {
    const auto comm = begin_alone(id, reports);
    CHECK(comm->state() == kNcclInProgress);
    comm->abort();
    CHECK(comm->await_end());
  }
  CHECK(abandoned_nccl_builds() == abandoned + 5);
  CHECK(counters().leaked == before.leaked + 5);
  CHECK(counters().alive == before.alive);
  CHECK(reports == 0);
}

TEST_CASE("a communicator that was never ready costs no process, however long its end takes") {
  const CancelToken never;
  const auto helper = UniqueIdHelper::start(unique_id_command(), 1, never, steady_clock::now() + seconds(20));
  REQUIRE(helper.ok());
  std::atomic<int> reports{0};
  const auto comm = begin_alone(helper->ids()[0], reports);
  {
    const Faults faults("wedge-abort");
    comm->abort();
    for (int i = 0; i < 3; ++i) CHECK_FALSE(comm->await_end());  // each for the deadline of ready ones
  }
  CHECK(comm->await_end());
  CHECK(reports == 0);
}

TEST_CASE("the stand-in refuses a call before the end of the last one for good, as NCCL does") {
  const CancelToken never;
  const auto helper = UniqueIdHelper::start(unique_id_command(), 1, never, steady_clock::now() + seconds(20));
  REQUIRE(helper.ok());
  std::atomic<int> reports{0};
  const auto comm = begin_alone(helper->ids()[0], reports);
  const int unpolled = counters().unpolled;
  const auto sum = [&](NcclHandle handle) {
    return (*NcclLibrary::get())->all_reduce(nullptr, nullptr, 0, kNcclFloat32, kNcclSum, handle, comm->stream());
  };
  CHECK(comm->state() == kNcclInProgress);
  CHECK_FALSE(comm->call("sum too early", sum).ok());
  CHECK(counters().unpolled == unpolled + 1);
  CHECK(comm->state() == 4);  // ncclInvalidArgument
  comm->abort();
  CHECK(comm->await_end());
}

TEST_CASE("an abort lets a call that was just made reach the device, so that it can tell when that is over") {
  const CancelToken never;
  const auto helper = UniqueIdHelper::start(unique_id_command(), 1, never, steady_clock::now() + seconds(20));
  REQUIRE(helper.ok());
  std::atomic<int> reports{0};
  const auto comm = begin_alone(helper->ids()[0], reports, 1);
  wait_until([&] { return comm->state() == kNcclSuccess; });
  Bucket bucket(10);
  {
    const Faults faults("launch-late,join-abort");
    const auto sum = [&](NcclHandle handle) {
      float* const data = bucket.reduce().data;
      return (*NcclLibrary::get())->all_reduce(data, data, 10, kNcclFloat32, kNcclSum, handle, comm->stream());
    };
    REQUIRE(comm->call("sum", sum).ok());
    comm->abort();
    CHECK(comm->await_end());
    CHECK(longest_left_nccl_end() > milliseconds(0));
    CHECK_FALSE(nccl_end_that_holds_the_device());
  }
  CHECK(reports == 0);
}

TEST_CASE("a device that is broken after an abort is noticed") {
  World world(shm(2));
  std::atomic<int> reports{0};
  auto all = build_all(world, 1, [&](std::uint32_t rank) {
    auto options = options_until(seconds(20));
    if (rank == 0)
      options.on_broken = [&](const std::string& what) { reports += what.find("process must end") != what.npos; };
    return options;
  });
  {
    const Faults faults("sticky-abort@0");
    all[0].communicator->abort();
    all[0].communicator.reset();
    CHECK(await_nccl_ends(seconds(20)));
  }
  CHECK(reports == 1);
}

TEST_CASE("a used communicator without a loss is closed in order, any other is aborted") {
  World world(shm(2));
  CHECK(await_nccl_ends(seconds(20)));
  const auto before = counters();
  auto all = build_all(world, 1, [](auto) { return options_until(seconds(20)); });
  std::thread other([&] { CHECK(all[1].communicator->barrier()); });
  CHECK(all[0].communicator->barrier());
  other.join();
  all.clear();
  CHECK(await_nccl_ends(seconds(20)));
  CHECK(counters().finalized == before.finalized + 2);
  CHECK(counters().destroyed == before.destroyed + 2);
  CHECK(counters().aborted == before.aborted);
  build_all(world, 2, [](auto) { return options_until(seconds(20)); });
  all = build_all(world, 3, [](auto) { return options_until(seconds(20)); });
  all[1].communicator->abort();
  all.clear();
  CHECK(await_nccl_ends(seconds(20)));
  CHECK(counters().destroyed == before.destroyed + 2);
  CHECK(counters().aborted == before.aborted + 4);
  CHECK(counters().alive == before.alive);
}

std::size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

void one_generation(World& world, Generation generation, std::atomic<int>& wrong) {
  world.run(
      [&](Communicator& comm) {
        Bucket bucket(std::vector<float>(100, 1.0F));
        if (!comm.device_sums()->all_reduce_device(bucket.reduce()) || bucket.data()[0] != 2.0F) ++wrong;
        if (generation % 3 == 0) comm.abort();
      },
      generation);
}

// All resources of a process, once its background work has ended.
struct Footprint {
  std::size_t descriptors, streams, events, allocations;
};

Footprint footprint() {
  CHECK(await_nccl_ends(seconds(20)));
  Footprint found{};
  standin_cuda_alive(&found.streams, &found.events, &found.allocations);
  found.descriptors = entries("/proc/self/fd");
  return found;
}

TEST_CASE("many generations, a third of them aborted, leave no descriptor, thread, stream or memory behind") {
  World world(shm(2));
  std::atomic<int> wrong{0};
  for (Generation generation = 1; generation <= 6; ++generation) one_generation(world, generation, wrong);
  const auto before = footprint();
  const auto counted = counters();
  const char* wanted = std::getenv("ET_GENERATIONS");
  const Generation last = wanted != nullptr ? static_cast<Generation>(std::atoi(wanted)) : 100;
  for (Generation generation = 7; generation <= last; ++generation) one_generation(world, generation, wrong);
  const auto after = footprint();
  CHECK(wrong == 0);
  CHECK(after.descriptors == before.descriptors);
  CHECK(after.streams == before.streams);
  CHECK(after.events == before.events);
  CHECK(after.allocations == before.allocations);
  CHECK(counters().alive == counted.alive);
  CHECK(counters().intruders == 0);
  CHECK(counters().roots == counted.roots);
  // What earlier cases have left to the stand-in are threads as well.
  const auto until = steady_clock::now() + seconds(20);
  const std::size_t most = 3 + after.streams;
  while (entries("/proc/self/task") > most && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
  CHECK(entries("/proc/self/task") <= most);
}

}  // namespace
}  // namespace elastictrain::comm::testing
