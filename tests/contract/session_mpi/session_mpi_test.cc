// Sessions at the ranks of real MPI launches: their processes stay while workers join and leave, and leave MPI
// together.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "tests/contract/session_mpi/pool_program.h"
#include "tests/unit/train_session/fake_run.h"

namespace elastictrain::test {

TestWorkerOptions pool_options() {
  const char* epochs = std::getenv(kEpochsVariable);
  TestWorkerOptions options{.sample_count = 777, .parameters = 100'003, .may_start_late = true};
  if (epochs != nullptr) options.epochs = std::strtoull(epochs, nullptr, 10);
  return options;
}

namespace {

// Workers that share memory, or that appear to be on different hosts, so that all of their bytes go through MPI.
enum class Machines { kOne, kSeveral };

// With the launcher that the test was started for.
struct Pool : FakeRun {
  explicit Pool(Machines machines, const char* epochs = "1000000") : FakeRun(options_with(epochs)) {
    set_environment("ELASTICTRAIN_BACKEND", "mpi");
    set_environment(kEpochsVariable, epochs);
    set_environment("ELASTICTRAIN_MPI_FINALIZE_TIMEOUT_MS", "60000");
    if (machines == Machines::kSeveral) set_environment("ELASTICTRAIN_HOST_KEY", "");
  }

  static TestWorkerOptions options_with(const char* epochs) {
    auto options = pool_options();
    options.epochs = std::strtoull(epochs, nullptr, 10);
    return options;
  }

  std::vector<WorkerId> start(std::uint32_t ranks) {
    const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
    const char* launcher = std::getenv("TEST_MPI_LAUNCHER");
    REQUIRE(launcher != nullptr);
    auto workers =
        spawn_pool(ranks, {std::getenv("TEST_MPI_LAUNCH"), launcher, std::to_string(ranks), self, kRankArgument});
    for (std::uint32_t rank = 0; rank < ranks; ++rank) CHECK((*this)[workers[rank]].ready->endpoint.mpi_rank == rank);
    return workers;
  }

  void train_some_steps() {
    for (const WorkerId worker : members()) {
      auto& record = (*this)[worker];
      wait_until([&] { return record.active.contains(generation()); }, to_string(worker) + " to be active");
      wait_step(worker, record.active.at(generation()).first_step + 6);
    }
  }

  // Members, spares and parked ones end together.
  void end_pool(const std::vector<WorkerId>& others) {
    for (const WorkerId worker : others) dismiss(worker);
    stop_and_check();
    for (const WorkerId worker : others) wait_exit(worker);
    stop_listening();
  }
};

void change_members(Machines machines) {
  Pool run(machines);
  const auto workers = run.start(4);
  run.change_to({workers[0], workers[1]});
  run.train_some_steps();
  run.change_to(workers);
  run.train_some_steps();
  run.change_to({workers[3], workers[1]});
  run.train_some_steps();
  const WorkerId first = run.reassign(workers[0]);
  CHECK(run[first].ready->endpoint.mpi_rank == 0);
  run.change_to({workers[3], workers[1], first});
  run.train_some_steps();
  run.change_to({workers[1]});
  run.train_some_steps();
  const WorkerId again = run.reassign(first);
  run.change_to({again, workers[1]});
  run.train_some_steps();
  run.wait_parked(workers[2]);
  run.wait_parked(workers[3]);
  run.end_pool({workers[2], workers[3]});
  CHECK(run.wait_launcher() == 0);
}

TEST_CASE("a pool grows, shrinks, replaces its first rank and stops, and every process leaves MPI in order") {
  SUBCASE("on one machine") {
    change_members(Machines::kOne);
  }
  SUBCASE("on several machines") {
    change_members(Machines::kSeveral);
  }
}

TEST_CASE("at the end of the data members and spares leave MPI in order") {
  Pool run(Machines::kSeveral, "2");
  const auto workers = run.start(3);
  run.change_to({workers[0], workers[2]});
  run.wait_until([&] { return run[workers[0]].finished.has_value(); }, "the end of the data");
  run.dismiss(workers[1]);
  run.wait_all_exited();
  run.stop_listening();
  CHECK(run.wait_launcher() == 0);
  run.check_audit();
}

bool is_open_mpi() {
  return std::string_view(std::getenv("TEST_MPI_LAUNCHER")).find("openmpi") != std::string::npos;
}

void lose_a_rank(Machines machines) {
  Pool run(machines);
  const auto workers = run.start(4);
  run.change_to({workers[0], workers[1], workers[2]});
  run.train_some_steps();
  ::kill(run[workers[1]].pid, SIGKILL);
  run.wait_exit(workers[1]);
  run.recover({workers[3]});
  run.train_some_steps();
  run.change_to({workers[3], workers[2]});
  run.train_some_steps();
  const WorkerId next = run.reassign(workers[0]);
  run.change_to({next, workers[2], workers[3]});
  run.train_some_steps();
  run.end_pool({});
  const bool ended_well = run.wait_launcher() == 0;
  CHECK((ended_well || !is_open_mpi()));
}

// Neither launcher fails while an agent stays between it and the rank. At the end MPICH's reports such a pool as
// failed.
TEST_CASE("a killed rank costs the run that rank: the others continue, with a waiting one in its place") {
  SUBCASE("on one machine") {
    lose_a_rank(Machines::kOne);
  }
  SUBCASE("on several machines") {
    // MPICH's messages within a machine: UCX ends a process that reads the memory of a killed rank.
    if (is_open_mpi()) lose_a_rank(Machines::kSeveral);
  }
}

}  // namespace
}  // namespace elastictrain::test
