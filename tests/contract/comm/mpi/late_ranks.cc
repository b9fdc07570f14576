#include "tests/contract/comm/mpi/late_ranks.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "train/comm/mpi/mpi_world.h"

namespace elastictrain::comm::testing {
namespace {

constexpr std::chrono::milliseconds kShort{100};
constexpr std::chrono::milliseconds kLate{1500};
constexpr std::chrono::milliseconds kEnough{60'000};

bool is_first_of_launch() {
  const char* open_mpi = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* mpich = std::getenv("PMI_RANK");
  return std::string(open_mpi != nullptr ? open_mpi : mpich != nullptr ? mpich : "") == "0";
}

int wrong(const char* what, const Status& status) {
  std::printf("FAILURE: %s: %s\n", what, status ? "no error" : status.error().message.c_str());
  return 1;
}

}  // namespace

int run_late_ranks() {
  const bool is_first = is_first_of_launch();
  if (is_first) {
    const auto alone = MpiWorld::join(kShort);
    const bool has_reason = !alone && alone.error().message.find("waits for all 2 ranks") != std::string::npos;
    if (!has_reason || alone.error().code != ErrorCode::kTimeout) return wrong("joining alone", Status());
  } else {
    std::this_thread::sleep_for(kLate);
  }
  const auto world = MpiWorld::join(kEnough);
  if (!world) return wrong("joining", world.error());
  if (!is_first) std::this_thread::sleep_for(kLate);
  const auto left = (*world)->leave(is_first ? kShort : kEnough);
  const bool right = is_first ? !left && left.error().code == ErrorCode::kTimeout : left.ok();
  if (!right) return wrong("leaving", left);
  // MPI_Finalize of the others needs this process.
  if (is_first) std::this_thread::sleep_for(2 * kLate);
  std::printf("rank %u of %u: passed\n", (*world)->rank(), (*world)->size());
  return 0;
}

int run_lost_launcher() {
  const auto world = MpiWorld::join(kEnough);
  if (!world) return wrong("joining", world.error());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return wrong("a connection", Status());
  ::setenv("PMI_FD", std::to_string(ends[0]).c_str(), 1);
  ::close(ends[1]);
  const auto left = (*world)->leave(kEnough);
  if (left || left.error().code != ErrorCode::kPeerLost) return wrong("leaving", left);
  std::printf("rank %u of %u: passed\n", (*world)->rank(), (*world)->size());
  std::fflush(nullptr);
  // The launcher kills the other ranks, and with them their lines, once one exits without MPI_Finalize.
  std::this_thread::sleep_for(kLate);
  ::_exit(0);
}

}  // namespace elastictrain::comm::testing
