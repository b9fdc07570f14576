#include "tests/unit/interleavings/scheduler.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace elastictrain::test {
namespace {

constexpr std::uint64_t kMostTurns = 1'000'000;  // of one interleaving: it goes on for ever
constexpr std::uint64_t kOneIn = 50;             // turns in which a thread that waits wakes without a reason
constexpr std::int64_t kSecond_ns = 1'000'000'000;

template <class Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::int64_t in_ns(const timespec& time) {
  return time.tv_sec * kSecond_ns + time.tv_nsec;
}

struct Managed {
  enum class State { kReady, kMutex, kCondition, kAtomic, kJoin, kSleep, kEnded };
  explicit Managed(std::size_t given) : number(given) { ::sem_init(&turn, 0, 0); }
  ~Managed() { ::sem_destroy(&turn); }
  std::size_t number;
  sem_t turn;
  State state = State::kReady;
  const void* what = nullptr;            // mutex, condition variable or thread
  std::optional<std::int64_t> deadline;  // virtual
  bool timed_out = false;
  pthread_t handle{};
};

class Scheduler {
 public:
  explicit Scheduler(std::uint64_t seed) : seed_(seed), random_(seed) {}

  Managed& add() { return *threads_.emplace_back(std::make_unique<Managed>(threads_.size())); }
  // The newest: a handle is used again once its thread was joined.
  Managed* of(pthread_t handle) {
    const auto found = std::find_if(threads_.rbegin(), threads_.rend(), [&](const auto& thread) {
      return thread->number != 0 && ::pthread_equal(thread->handle, handle) != 0;
    });
    return found == threads_.rend() ? nullptr : found->get();
  }
  std::uint64_t choose(std::uint64_t count) { return random_() % count; }
  std::int64_t ahead_ns() const { return ahead_ns_; }

  void lock(Managed& self, pthread_mutex_t* mutex) {
    pass(self);
    const bool again =
        owners_.contains(mutex) && owners_[mutex] == &self && mutex->__data.__kind == PTHREAD_MUTEX_RECURSIVE_NP;
    if (!again) wait_for_mutex(self, mutex);
    ++depths_[mutex];
  }
  bool try_lock(Managed& self, pthread_mutex_t* mutex) {
    pass(self);
    if (owners_.contains(mutex)) return false;
    owners_[mutex] = &self;
    ++depths_[mutex];
    return true;
  }
  void unlock(Managed& self, pthread_mutex_t* mutex) {
    release(mutex);
    pass(self);
  }
  // Whether it was woken before the deadline.
  bool wait(Managed& self, const void* condition, pthread_mutex_t* mutex, std::optional<std::int64_t> deadline) {
    const int depth = depths_[mutex];
    depths_[mutex] = 1;
    release(mutex);
    block(self, Managed::State::kCondition, condition, deadline);
    const bool in_time = !self.timed_out;
    wait_for_mutex(self, mutex);
    depths_[mutex] = depth;
    return in_time;
  }
  void notify(Managed& self, const void* condition, bool all) {
    std::vector<Managed*> waiting;
    for (const auto& thread : threads_) {
      if (thread->state == Managed::State::kCondition && thread->what == condition) waiting.push_back(thread.get());
    }
    if (!all && !waiting.empty()) waiting = {waiting[choose(waiting.size())]};
    for (Managed* thread : waiting) wake(*thread, false);
    pass(self);
  }
  void sleep(Managed& self, std::int64_t until_ns) { block(self, Managed::State::kSleep, nullptr, until_ns); }
  void join(Managed& self, const Managed& other) {
    pass(self);
    while (other.state != Managed::State::kEnded) block(self, Managed::State::kJoin, &other, std::nullopt);
  }
  void end(Managed& self) {
    self.state = Managed::State::kEnded;
    for (const auto& thread : threads_) {
      if (thread->state == Managed::State::kJoin && thread->what == &self) wake(*thread, false);
    }
    ::sem_post(&next().turn);
  }
  // Of std::atomic's wait(): whether it has slept.
  bool wait_for_atomic(Managed& self, const int* value, int expected) {
    pass(self);
    if (__atomic_load_n(value, __ATOMIC_SEQ_CST) != expected) return false;
    block(self, Managed::State::kAtomic, value, std::nullopt);
    return true;
  }
  void wake_atomic(Managed& self, const int* value) {
    for (const auto& thread : threads_) {
      if (thread->state == Managed::State::kAtomic && thread->what == value) wake(*thread, false);
    }
    pass(self);
  }
  // Another one may go on.
  void pass(Managed& self) {
    Managed& chosen = next();
    if (&chosen == &self) return;
    ::sem_post(&chosen.turn);
    ::sem_wait(&self.turn);
  }
  bool all_have_ended() const {
    return std::all_of(threads_.begin() + 1, threads_.end(),
                       [](const auto& thread) { return thread->state == Managed::State::kEnded; });
  }

 private:
  void wait_for_mutex(Managed& self, pthread_mutex_t* mutex) {
    while (owners_.contains(mutex)) block(self, Managed::State::kMutex, mutex, std::nullopt);
    owners_[mutex] = &self;
  }
  void release(pthread_mutex_t* mutex) {
    if (--depths_[mutex] > 0) return;
    owners_.erase(mutex);
    depths_.erase(mutex);
    for (const auto& thread : threads_) {
      if (thread->state == Managed::State::kMutex && thread->what == mutex) wake(*thread, false);
    }
  }
  static void wake(Managed& thread, bool timed_out) {
    thread.state = Managed::State::kReady;
    thread.timed_out = timed_out;
    thread.deadline.reset();
  }
  void block(Managed& self, Managed::State state, const void* what, std::optional<std::int64_t> deadline) {
    self.state = state;
    self.what = what;
    self.deadline = deadline;
    pass(self);
  }

  Managed& next() {
    if (++turns_ > kMostTurns) give_up("goes on for ever");
    std::vector<Managed*> ready;
    std::vector<Managed*> waiting;
    for (const auto& thread : threads_) {
      if (thread->state == Managed::State::kReady) ready.push_back(thread.get());
      if (thread->state == Managed::State::kCondition) waiting.push_back(thread.get());
    }
    if (!ready.empty() && !waiting.empty() && choose(kOneIn) == 0) {
      Managed& woken = *waiting[choose(waiting.size())];
      wake(woken, false);
      ready.push_back(&woken);
    }
    if (ready.empty()) ready.push_back(&next_in_time());
    return *ready[choose(ready.size())];
  }
  Managed& next_in_time() {
    Managed* first = nullptr;
    for (const auto& thread : threads_) {
      if (thread->deadline && (first == nullptr || *thread->deadline < *first->deadline)) first = thread.get();
    }
    if (first == nullptr) give_up("is a deadlock");
    timespec now{};
    original<int(clockid_t, timespec*)>("clock_gettime")(CLOCK_MONOTONIC, &now);
    ahead_ns_ = std::max(ahead_ns_, *first->deadline - in_ns(now));
    wake(*first, true);
    return *first;
  }
  [[noreturn]] void give_up(const char* why) const {
    static constexpr const char* kWaits[] = {
        "can go on", "waits for a mutex", "waits for a condition", "waits for an atomic", "waits for a thread",
        "sleeps",    "has ended"};
    std::fprintf(stderr, "the interleaving of seed %llu %s\n", static_cast<unsigned long long>(seed_), why);
    for (const auto& thread : threads_) {
      std::fprintf(stderr, "  thread %zu %s %p\n", thread->number, kWaits[static_cast<int>(thread->state)],
                   thread->what);
    }
    std::abort();
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Managed>> threads_;
  std::map<const pthread_mutex_t*, Managed*> owners_;
  std::map<const pthread_mutex_t*, int> depths_;
  std::int64_t ahead_ns_ = 0;  // of virtual time
  std::uint64_t turns_ = 0;
};

Scheduler* scheduler = nullptr;
thread_local Managed* self = nullptr;

struct Start {
  void* (*function)(void*);
  void* argument;
  Managed* thread;
};

void* run_thread(void* given) {
  const std::unique_ptr<Start> start(static_cast<Start*>(given));
  self = start->thread;
  ::sem_wait(&self->turn);
  void* const result = start->function(start->argument);
  Managed& ended = *std::exchange(self, nullptr);
  scheduler->end(ended);
  return result;
}

// Of a clock's time in the virtual time of CLOCK_MONOTONIC.
std::int64_t monotonic_ns(clockid_t clock, const timespec& time) {
  timespec there{};
  timespec here{};
  ::clock_gettime(clock, &there);
  ::clock_gettime(CLOCK_MONOTONIC, &here);
  return in_ns(here) + (in_ns(time) - in_ns(there));
}

int wait_until(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  return scheduler->wait(*self, condition, mutex, monotonic_ns(clock, *deadline)) ? 0 : ETIMEDOUT;
}

}  // namespace

void run_interleaved(std::uint64_t seed, const std::function<void()>& body) {
  Scheduler one(seed);
  scheduler = &one;
  self = &one.add();
  body();
  const bool all_have_ended = one.all_have_ended();
  self = nullptr;
  scheduler = nullptr;
  if (!all_have_ended) std::abort();
}

void yield() {
  if (self != nullptr) scheduler->pass(*self);
}

std::chrono::nanoseconds skipped() {
  return std::chrono::nanoseconds(scheduler->ahead_ns());
}

}  // namespace elastictrain::test

// In place of the C library's, for threads of an interleaving; for others they are the same.
using elastictrain::test::original;
using elastictrain::test::scheduler;
using elastictrain::test::self;

#pragma GCC visibility push(default)  // the standard library's calls come here, too
extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = original<int(pthread_mutex_t*)>("pthread_mutex_lock");
  if (self == nullptr) return real(mutex);
  scheduler->lock(*self, mutex);
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = original<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  if (self == nullptr) return real(mutex);
  return scheduler->try_lock(*self, mutex) ? 0 : EBUSY;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = original<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  if (self == nullptr) return real(mutex);
  scheduler->unlock(*self, mutex);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static auto* const real = original<int(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait");
  if (self == nullptr) return real(condition, mutex);
  scheduler->wait(*self, condition, mutex, std::nullopt);
  return 0;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* deadline) {
  static auto* const real = original<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  if (self == nullptr) return real(condition, mutex, deadline);
  return elastictrain::test::wait_until(condition, mutex, CLOCK_REALTIME, deadline);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* deadline) {
  static auto* const real =
      original<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait");
  if (self == nullptr) return real(condition, mutex, clock, deadline);
  return elastictrain::test::wait_until(condition, mutex, clock, deadline);
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  static auto* const real = original<int(pthread_cond_t*)>("pthread_cond_signal");
  if (self == nullptr) return real(condition);
  scheduler->notify(*self, condition, false);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  static auto* const real = original<int(pthread_cond_t*)>("pthread_cond_broadcast");
  if (self == nullptr) return real(condition);
  scheduler->notify(*self, condition, true);
  return 0;
}

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) noexcept {
  static auto* const real = original<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  if (self == nullptr) return real(handle, attributes, function, argument);
  auto& thread = scheduler->add();
  auto* const start = new elastictrain::test::Start{function, argument, &thread};
  const int status = real(&thread.handle, attributes, elastictrain::test::run_thread, start);
  if (status != 0) std::abort();
  *handle = thread.handle;
  scheduler->pass(*self);
  return 0;
}

int pthread_join(pthread_t handle, void** result) {
  static auto* const real = original<int(pthread_t, void**)>("pthread_join");
  if (self != nullptr) {
    if (const auto* thread = scheduler->of(handle)) scheduler->join(*self, *thread);
  }
  return real(handle, result);
}

int sched_yield() noexcept {
  static auto* const real = original<int()>("sched_yield");
  if (self == nullptr) return real();
  scheduler->pass(*self);
  return 0;
}

// The standard library's atomics wait by futex(2).
long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long given[6];
  for (long& argument : given) argument = va_arg(list, long);
  va_end(list);
  static auto* const real = original<long(long, ...)>("syscall");
  const long operation = given[1] & ~FUTEX_PRIVATE_FLAG;
  auto* const value = reinterpret_cast<const int*>(given[0]);
  if (self != nullptr && number == SYS_futex && operation == FUTEX_WAIT && given[3] == 0) {
    if (scheduler->wait_for_atomic(*self, value, static_cast<int>(given[2]))) return 0;
    errno = EAGAIN;
    return -1;
  }
  if (self != nullptr && number == SYS_futex && operation == FUTEX_WAKE) {
    scheduler->wake_atomic(*self, value);
    return 0;
  }
  return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

int nanosleep(const timespec* time, timespec* left) {
  static auto* const real = original<int(const timespec*, timespec*)>("nanosleep");
  if (self == nullptr) return real(time, left);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  scheduler->sleep(*self, elastictrain::test::in_ns(now) + elastictrain::test::in_ns(*time));
  return 0;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = original<int(clockid_t, timespec*)>("clock_gettime");
  const int status = real(clock, time);
  if (self == nullptr || status != 0) return status;
  const std::int64_t ns = elastictrain::test::in_ns(*time) + scheduler->ahead_ns();
  *time = {ns / elastictrain::test::kSecond_ns, ns % elastictrain::test::kSecond_ns};
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
