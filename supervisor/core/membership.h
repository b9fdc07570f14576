// Purpose: the run as a pure state machine. Events and the time go in, actions come out; no clock, no I/O, no threads,
// no random source of its own (the caller passes in the generator of generation tokens).
//
// How it works: an event changes the state of the run (run.h) and what is desired of it; then `advance()` compares the
// desired state with the actual one until nothing changes any more.
//
// Ownership: one per run. Thread: any one thread at a time. The invariants of invariants.h hold after every step().
#pragma once

#include <functional>
#include <memory>

#include "supervisor/core/pure/action.h"
#include "supervisor/core/pure/event.h"
#include "supervisor/core/pure/run_view.h"
#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

struct Run;

class Membership {
 public:
  // `make_token` returns a fresh unpredictable token at each call (a counter in tests).
  Membership(RunSettings settings, std::function<Token()> make_token);
  ~Membership();
  Membership(Membership&&) noexcept;
  Membership& operator=(Membership&&) noexcept;

  Actions step(const Event& event, Instant now);

  RunView view() const;
  // The whole state as one record, for a journal in which records of single events are missing: everything that a
  // supervisor needs to take the run over. Call it between steps.
  Journal state_record() const;
  bool ended() const;

 private:
  std::unique_ptr<Run> run_;
};

}  // namespace elastictrain::core
