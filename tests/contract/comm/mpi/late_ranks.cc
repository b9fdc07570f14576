#include "tests/contract/comm/mpi/late_ranks.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "train/comm/mpi/mpi_world.h"

namespace elastictrain::comm::testing {
namespace {

constexpr std::chrono::milliseconds kShort{100};
constexpr std::chrono::milliseconds kEnough{60'000};

bool is_first_of_launch() {
  const char* open_mpi = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* mpich = std::getenv("PMI_RANK");
  return std::string(open_mpi != nullptr ? open_mpi : mpich != nullptr ? mpich : "") == "0";
}

// A connection between the two ranks that does without MPI: both are children of the same launcher.
class Line {
 public:
  explicit Line(bool is_first) : socket_(is_first ? accepted() : connected()) {}

  // The other rank's await() returns.
  void signal() const {
    if (::send(socket_, "x", 1, MSG_NOSIGNAL) != 1) die("the other rank is gone");
  }
  void await() const {
    char byte = 0;
    if (!readable(socket_) || ::read(socket_, &byte, 1) != 1) die("the other rank did not get there");
  }

 private:
  [[noreturn]] static void die(const char* what) {
    std::printf("FAILURE: %s\n", what);
    std::fflush(nullptr);
    ::_exit(1);
  }
  static bool readable(int socket) {
    pollfd waits{socket, POLLIN, 0};
    return ::poll(&waits, 1, static_cast<int>(kEnough.count())) == 1;
  }
  static std::pair<sockaddr_un, socklen_t> name() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string text = "elastictrain-late-ranks-" + std::to_string(::getppid());
    std::copy(text.begin(), text.end(), address.sun_path + 1);  // an abstract name
    return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size())};
  }
  static int accepted() {
    const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const auto [address, length] = name();
    const bool listens = ::bind(listener, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                         ::listen(listener, 1) == 0 && readable(listener);
    const int socket = listens ? ::accept(listener, nullptr, nullptr) : -1;
    if (socket < 0) die("the other rank has not connected");
    ::close(listener);
    return socket;
  }
  static int connected() {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const auto [address, length] = name();
    const auto end = std::chrono::steady_clock::now() + kEnough;
    while (::connect(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
      if (std::chrono::steady_clock::now() > end) die("the other rank does not listen");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return socket;
  }

  int socket_;
};

int wrong(const char* what, const Status& status) {
  std::printf("FAILURE: %s: %s\n", what, status ? "no error" : status.error().message.c_str());
  return 1;
}

}  // namespace

int run_late_ranks() {
  const bool is_first = is_first_of_launch();
  const Line other(is_first);
  if (is_first) {
    const auto alone = MpiWorld::join(kShort);
    const bool has_reason = !alone && alone.error().message.find("waits for all 2 ranks") != std::string::npos;
    if (!has_reason || alone.error().code != ErrorCode::kTimeout) return wrong("joining alone", Status());
    other.signal();
  } else {
    other.await();
  }
  const auto world = MpiWorld::join(kEnough);
  if (!world) return wrong("joining", world.error());
  if (!is_first) other.await();
  const auto left = (*world)->leave(is_first ? kShort : kEnough);
  const bool right = is_first ? !left && left.error().code == ErrorCode::kTimeout : left.ok();
  if (!right) return wrong("leaving", left);
  // The launcher may lose lines once this process ends within its MPI_Finalize, which the other's needs until then.
  std::printf("rank %u of %u: passed\n", (*world)->rank(), (*world)->size());
  std::fflush(nullptr);
  other.signal();
  if (is_first) other.await();
  return 0;
}

int run_lost_launcher() {
  const Line other(is_first_of_launch());
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
  // The launcher kills the other rank, and with it its line, once one exits without MPI_Finalize.
  other.signal();
  other.await();
  ::_exit(0);
}

}  // namespace elastictrain::comm::testing
