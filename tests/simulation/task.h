// Purpose: a simulated thread as a coroutine, so that the training loop of a simulated worker reads like the real one.
// A Task starts when it is awaited (or with start()), and its frames end when it is destroyed: a killed process
// destroys its outermost Task.
//
// Thread: one. Exceptions are not used inside.
#pragma once

#include <coroutine>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>

namespace elastictrain::simulation {

template <class T>
class Task;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> continuation;

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      return self.promise().continuation ? self.promise().continuation : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() { std::abort(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  void return_value(T result) { value = std::move(result); }
};
template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
};

}  // namespace detail

template <class T = void>
class Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  void start() { handle_.resume(); }
  bool done() const { return !handle_ || handle_.done(); }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) {
    handle_.promise().continuation = waiting;
    return handle_;
  }
  T await_resume() {
    if constexpr (!std::is_void_v<T>) return std::move(*handle_.promise().value);
  }

 private:
  Handle handle_;
};

namespace detail {
template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

// The place where the one thread of a process waits. Each wait has a number; a late wake-up for an older one has no
// effect.
class WaitPoint {
 public:
  using Ticket = std::uint64_t;

  bool waiting() const { return static_cast<bool>(handle_); }
  bool waits_for(Ticket ticket) const { return handle_ && ticket == ticket_; }
  Ticket ticket() const { return ticket_; }
  void wake(Ticket ticket) {
    if (waits_for(ticket)) std::exchange(handle_, {}).resume();
  }
  void wake() { wake(ticket_); }
  void forget() { handle_ = {}; }

  // `arrange` is called once the thread waits. It must not wake the thread at once, and exists until the wait begins.
  using Arrange = std::function<void(Ticket)>;
  struct Waiting {
    WaitPoint* point;
    const Arrange* arrange;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) const {
      point->handle_ = handle;
      (*arrange)(++point->ticket_);
    }
    void await_resume() const noexcept {}
  };
  Waiting wait(const Arrange& arrange) { return {this, &arrange}; }

 private:
  std::coroutine_handle<> handle_;
  Ticket ticket_ = 0;
};

}  // namespace elastictrain::simulation
