// That the scheduler finds what depends on the order of threads.
#include "tests/unit/interleavings/scheduler.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace elastictrain::test {
namespace {

// How many of 200 seeds abort the process.
int aborted(void (*body)()) {
  int count = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(STDERR_FILENO);
      ::signal(SIGABRT, SIG_DFL);
      run_interleaved(seed, body);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    count += WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 1 : 0;
  }
  return count;
}

std::string order_of(std::uint64_t seed) {
  std::string order;
  run_interleaved(seed, [&order] {
    std::mutex mutex;
    const auto add = [&](const char* name) {
      for (int i = 0; i < 3; ++i) {
        const std::lock_guard lock(mutex);
        order += name;
      }
    };
    std::thread a([&] { add("a"); });
    std::thread b([&] { add("b"); });
    a.join();
    b.join();
  });
  return order;
}

}  // namespace

TEST_CASE("a seed gives the same interleaving each time, and many seeds give many") {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    orders.insert(order_of(seed));
    CHECK(order_of(seed) == order_of(seed));
  }
  CHECK(orders.size() == 20);  // all of 6!/(3! 3!)
}

TEST_CASE("a notification that comes before the wait is a deadlock for some seeds") {
  const int lost = aborted([] {
    std::mutex mutex;
    std::condition_variable changed;
    std::thread sender([&] { changed.notify_one(); });
    {
      std::unique_lock lock(mutex);
      changed.wait(lock);
    }
    sender.join();
  });
  CHECK(lost > 0);
  CHECK(lost < 200);
}

TEST_CASE("two mutexes in two orders are a deadlock for some seeds, in one order for none") {
  static bool reversed;
  const auto body = [] {
    std::mutex a;
    std::mutex b;
    std::thread other([&] {
      const std::lock_guard first(reversed ? b : a);
      const std::lock_guard second(reversed ? a : b);
    });
    {
      const std::lock_guard first(a);
      const std::lock_guard second(b);
    }
    other.join();
  };
  reversed = true;
  const int deadlocks = aborted(body);
  CHECK(deadlocks > 0);
  CHECK(deadlocks < 200);
  reversed = false;
  CHECK(aborted(body) == 0);
}

TEST_CASE("time passes when nobody can go on") {
  using namespace std::chrono_literals;
  const auto begin = std::chrono::steady_clock::now();
  run_interleaved(1, [] {
    std::mutex mutex;
    std::condition_variable changed;
    const auto began = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex);
    CHECK_FALSE(changed.wait_for(lock, 1h, [] { return false; }));
    std::this_thread::sleep_for(1h);
    CHECK(std::chrono::steady_clock::now() - began >= 2h);
  });
  CHECK(std::chrono::steady_clock::now() - begin < 1h);
}

TEST_CASE("a wait for an atomic ends when it has changed") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    run_interleaved(seed, [] {
      std::atomic<bool> copying{true};
      std::thread other([&] {
        yield();
        copying = false;
        copying.notify_all();
      });
      copying.wait(true);
      CHECK_FALSE(copying);
      other.join();
    });
  }
}

}  // namespace elastictrain::test
