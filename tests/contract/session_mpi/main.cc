// The test itself and, at each rank of its launches, the program of a worker.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "tests/contract/session_mpi/pool_program.h"
#include "tests/quick_end.h"
#include "tests/unit/train_session/test_worker.h"

namespace {

using namespace elastictrain::test;

// Workers count from 1, in the order of the ranks.
int run_worker() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr) rank = std::getenv("PMI_RANK");
  if (rank == nullptr) return kExitBrokenPromise;
  ::setenv("ELASTICTRAIN_WORKER_ID", std::to_string(std::atoi(rank) + 1).c_str(), 1);
  const int code = run_test_worker(pool_options());
  const bool in_order = code == kExitFinished || code == kExitLeft || code == kExitStopped || code == kExitDismissed;
  return in_order ? 0 : code;
}

// Like an agent, it stays between the launcher and its rank until the run is over, whatever happens to the rank.
int run_rank() {
  const pid_t worker = ::fork();
  if (worker == 0) elastictrain::testing::end_quickly(run_worker());
  int status = 0;
  ::waitpid(worker, &status, 0);
  const char* socket = std::getenv("ELASTICTRAIN_SOCKET");
  while (socket != nullptr && ::access(socket, F_OK) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const bool was_lost = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  return was_lost ? 0 : WEXITSTATUS(status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == elastictrain::test::kRankArgument) return run_rank();
  return doctest::Context(argc, argv).run();
}
