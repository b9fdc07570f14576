// Purpose: what one step of the state machine produces: actions in order, timers, and whether the desired and the
// actual state must be compared again. Every component writes here; the time of the step is read here.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/core/action.h"
#include "supervisor/core/timer_book.h"

namespace elastictrain::core {

class Outbox {
 public:
  void begin_step(Instant now);
  Instant now() const { return now_; }
  const Actions& actions() const { return actions_; }
  Actions take_actions() { return std::exchange(actions_, {}); }

  template <class T>  // an alternative of Action; compiled in outbox.cc
  void emit(T action);
  // Before the actions that carry out what it records.
  template <class R>
  void journal(R about, bool sync = false) {
    emit(Journal(std::in_place_type<R>, std::move(about), sync));
  }
  void send(std::vector<WorkerId> workers, protocol::WorkerDown message);
  void tell(Tell::Level level, std::string text);

  std::uint64_t arm(TimerUse use, Instant when);
  // Sets `timer` to 0.
  void cancel(std::uint64_t& timer);
  // Nothing: it was cancelled.
  std::optional<TimerUse> take_timer(std::uint64_t timer) { return timers_.take(timer); }

  // Something changed that the comparison of the desired state with the actual one must see.
  void look_again() { look_again_ = true; }
  bool must_look() const { return look_again_; }
  void looked() { look_again_ = false; }

 private:
  Instant now_;
  Actions actions_;
  TimerBook timers_;
  bool look_again_ = false;
};

}  // namespace elastictrain::core
