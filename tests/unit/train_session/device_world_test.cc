// Several workers on stand-in devices that sum over NCCL: what overlaps, what does not wait, and what a worker does
// whose NCCL does not work or leaks.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "fake_run.h"
#include "supervisor/protocol/names.h"
#include "tests/standin/standin_nccl.h"
#include "tests/support/temporary_directory.h"
#include "train/comm/nccl/nccl_comm.h"

namespace elastictrain::test {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kAtMost{20};

template <class Function>
Function* of_standin(const char* variable, const char* name) {
  void* const library = ::dlopen(std::getenv(variable), RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

int sums_done() {
  StandinNcclCounters counters{};
  of_standin<decltype(standin_nccl_counters)>("ELASTICTRAIN_NCCL_LIBRARY", "standin_nccl_counters")(&counters);
  return counters.summed;
}

// Ends this worker with a message if the time is over.
void wait_here(const std::function<bool()>& condition, const char* what) {
  const auto latest = steady_clock::now() + kAtMost;
  while (!condition()) {
    if (steady_clock::now() > latest) {
      std::fprintf(stderr, "worker %d waited in vain: %s\n", static_cast<int>(::getpid()), what);
      std::_Exit(kExitBrokenPromise);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_CASE("the first bucket of a step is summed before the backward pass, which is queued behind it, goes on") {
  static std::atomic<int> before{0};  // sums that were done before the step
  TestWorkerOptions options{.max_steps = 5};
  options.in_step = [](Session&, std::uint64_t) { before = sums_done(); };
  options.behind_first_bucket = [](void* stream) {
    const auto enqueue =
        of_standin<decltype(standin_cuda_enqueue)>("ELASTICTRAIN_CUDA_LIBRARY", "standin_cuda_enqueue");
    enqueue(
        stream, [](void*) { wait_here([] { return sums_done() > before; }, "the sum of the first bucket"); }, nullptr);
  };
  FakeRun run(options);
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_all_exited();
  for (const WorkerId worker : workers) CHECK(run[worker].exit_code == kExitFinished);
}

TEST_CASE("a donor computes while its transfer waits for a joiner that has not come to it") {
  void* const shared =
      ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  auto* const computes = new (shared) std::atomic<bool>{false};
  TestWorkerOptions donor;
  donor.in_step = [computes](Session& session, std::uint64_t) {
    if (session.world_size() == 3) *computes = true;
  };
  TestWorkerOptions joiner;
  joiner.after_start = [computes](Session&) { wait_here([computes] { return computes->load(); }, "a donor's pass"); };
  FakeRun run(donor);
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 3);
  workers.push_back(run.spawn_ready(joiner));
  run.change_to(workers);
  run.wait_step(workers[2], run[workers[0]].heartbeat.step + 3);
  run.stop_and_check();
  ::munmap(shared, sizeof(std::atomic<bool>));
}

// Two workers with gradients of 16 bits, then three, of which one is lost. Each ends at the first sum that is not made
// as it should be: by NCCL in single precision, or by the workers themselves.
void grow_and_lose(bool in_single_precision) {
  TestWorkerOptions options{.parameters = 20'003, .narrow = true};
  options.after_sums = [in_single_precision](Session&, std::uint64_t) {
    if ((sums_done() > 0) != in_single_precision) throw std::runtime_error("a sum of the other kind");
  };
  FakeRun run(options);
  if (in_single_precision) run.set_environment("ELASTICTRAIN_GRADIENT_WIRE", "float32");
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 3);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[2], run[workers[0]].heartbeat.step + 3);
  run.kill(workers[2]);
  run.recover();
  run.wait_step(workers[0], run.committed().at(run.generation()).resume_step + 5);
  run.stop_and_check();
}

TEST_CASE("gradients of 16 bits travel in 16 bits through growth and a loss, and the workers stay equal") {
  grow_and_lose(false);
}

TEST_CASE("where the user wants it, gradients of 16 bits travel in single precision") {
  grow_and_lose(true);
}

TEST_CASE("where NCCL does not work for one worker, it says so and all sum through the host") {
  FakeRun run({.max_steps = 5});
  run.set_environment("ELASTICTRAIN_BACKEND", "auto");
  auto workers = run.spawn_ready(1);
  run.set_environment("ET_STANDIN_NCCL_FAULTS", "fail-init");
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_all_exited();
  for (const WorkerId worker : workers) CHECK(run[worker].exit_code == kExitFinished);
  CHECK(run[workers[0]].notes.count("nccl") == 0);
  CHECK(run[workers[1]].notes["nccl"].find("device memory is staged") != std::string::npos);
}

TEST_CASE("a newcomer whose NCCL does not work declines, and who trains over NCCL goes on") {
  FakeRun run{TestWorkerOptions()};
  run.set_environment("ELASTICTRAIN_BACKEND", "auto");
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 3);
  run.set_environment("ET_STANDIN_NCCL_FAULTS", "fail-init");
  const WorkerId newcomer = run.spawn_ready();
  const auto plan = run.plan({workers[0], workers[1], newcomer});
  run.prepare(plan);
  run.wait_until([&] { return !run[newcomer].declines.empty(); }, "the newcomer declines");
  CHECK(run[newcomer].declines.find("NCCL does not work on rank 2, and the others sum over it: ") == 0);
  run.wait_until([&] { return run[workers[0]].prepare_failed.count(plan.generation) != 0; }, "the build fails");
  run.cancel(plan);
  run.dismiss(newcomer);
  run.wait_exit(newcomer);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
  CHECK(run[workers[0]].notes.count("nccl") == 0);
  run.stop_and_check();
}

// Its weights still fit.
std::string full_device(const TestWorkerOptions& options) {
  return std::to_string(options.parameters * sizeof(float));
}

TEST_CASE("a worker whose device has no room for copies of its gradients does not come to those that wait for it") {
  const TestWorkerOptions options{.parameters = 20'003};
  FakeRun run(options);
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 3);
  run.set_environment("ET_STANDIN_LARGEST_PIECE", full_device(options));
  const WorkerId newcomer = run.spawn(options);
  run.wait_exit(newcomer);
  CHECK(run[newcomer].exit_code == kExitSessionError);
  CHECK_FALSE(run[newcomer].ready);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
  run.stop_and_check();
}

TEST_CASE("a worker alone that has no room for copies of its gradients gets no peers, and trains on") {
  const TestWorkerOptions options{.parameters = 20'003};
  FakeRun run(options);
  run.set_environment("WORLD_SIZE", "1");
  run.set_environment("ET_STANDIN_LARGEST_PIECE", full_device(options));
  const WorkerId alone = run.spawn_ready();
  run.change_to({alone});
  run.wait_step(alone, 3);
  run.set_environment("WORLD_SIZE", "2");
  run.set_environment("ET_STANDIN_LARGEST_PIECE", "1000000000");
  const WorkerId newcomer = run.spawn_ready();
  const auto plan = run.plan({alone, newcomer});
  run.prepare(plan);
  run.wait_until([&] { return run[alone].prepare_failed.count(plan.generation) != 0; }, "the build fails");
  CHECK(run[alone].prepare_failed[plan.generation].find("no memory on the device for copies of the gradients") !=
        std::string::npos);
  run.wait_until([&] { return run[newcomer].prepare_failed.count(plan.generation) != 0; }, "it fails there, too");
  CHECK(run[newcomer].prepare_failed[plan.generation].find("on the device of rank 0") != std::string::npos);
  CHECK(run[newcomer].declines.empty());
  run.cancel(plan);
  run.dismiss(newcomer);
  run.wait_exit(newcomer);
  run.wait_step(alone, run[alone].heartbeat.step + 5);
  run.stop_and_check();
}

// As the builds of changes that were given up, whose joiner never came.
void abandon_builds(int count) {
  const auto limit = steady_clock::now() + kAtMost;
  const auto helper = comm::UniqueIdHelper::start(comm::unique_id_command(), static_cast<std::size_t>(count),
                                                  comm::CancelToken(), limit);
  const auto device = device::Device::open(0);
  const auto nccl = comm::NcclLibrary::get();
  if (!helper || !device || !nccl) throw std::runtime_error("no build to abandon");
  for (const auto& id : helper->ids()) {
    const auto comm = comm::NcclComm::begin(**nccl, *device, {.ids = {id}, .rank = 0, .ranks = 2, .name = "abandoned"});
    if (!comm) throw std::runtime_error(comm.error().message);
    (*comm)->abort();
    (*comm)->await_end();
  }
}

TEST_CASE("a worker in which many builds were abandoned asks to be replaced, and trains on") {
  TestWorkerOptions options;
  options.in_step = [](Session&, std::uint64_t step) {
    if (step == 3) abandon_builds(64);
  };
  FakeRun run(options);
  const auto worker = run.spawn_ready();
  run.change_to({worker});
  const std::string key(protocol::kTermNote);
  run.wait_until([&] { return run[worker].notes.count(key) != 0; }, "the wish to be replaced");
  CHECK(run[worker].notes[key].find("abandoned builds") != std::string::npos);
  run.wait_step(worker, run[worker].heartbeat.step + 3);
  run.stop_and_check();
}

// Three workers, one of which is lost in a step: what becomes of the others where NCCL's aborts end late.
struct LateAborts {
  explicit LateAborts(const std::string& fault) {
    run.set_environment("ET_STANDIN_NCCL_CONTROL", control.file("faults"));
    workers = run.spawn_ready(3);
    run.change_to(workers);
    run.wait_step(workers[0], 3);
    switch_on("stall-run," + fault);
    const auto is_held = [&](WorkerId worker) {
      return run[worker].heartbeat.place == protocol::StepPlace::kReducing && run[worker].still >= 10;
    };
    run.wait_until([&] { return std::all_of(workers.begin(), workers.end(), is_held); }, "all to be held in a sum");
    switch_on(fault);
    run.kill(workers[2]);
  }
  void switch_on(const std::string& fault) {
    std::filesystem::rename(control.write("new", fault), control.file("faults"));
  }
  void train_on() {
    for (std::size_t i = 0; i < 2; ++i) {
      run.wait_step(workers[i], run.committed().at(run.generation()).resume_step + 3);
    }
  }

  TemporaryDirectory control;
  FakeRun run{TestWorkerOptions()};
  std::vector<WorkerId> workers;
};

TEST_CASE("survivors whose aborts never return train on, since their devices are free") {
  LateAborts late("join-abort");
  late.run.recover();
  late.train_on();
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(late.run[late.workers[i]].notes.count(std::string(protocol::kHeldNote)) == 0);
  late.run.stop_and_check();
}

TEST_CASE("survivors whose devices are not released say so, wait, and train on when they are") {
  LateAborts late("stall-run,wedge-abort");
  const Generation fence = late.run.new_fence();
  late.run.send_abort(fence, late.run.living());
  const std::string key(protocol::kHeldNote);
  for (std::size_t i = 0; i < 2; ++i) {
    late.run.wait_until([&] { return late.run[late.workers[i]].notes.count(key) != 0; }, "the note of a held device");
    CHECK(late.run[late.workers[i]].notes[key].find("NCCL did not end") != std::string::npos);
  }
  late.switch_on("none");
  late.run.wait_halted(fence, late.run.living());
  late.run.recover_with(late.run.recovery_plan(fence));
  late.train_on();
  late.run.stop_and_check();
}

}  // namespace
}  // namespace elastictrain::test
