// Purpose: what signals to `run` mean. Ctrl-C once drains, twice stops; TERM and HUP are a preemption (HUP is nothing
// to a run that is to outlive its terminal); USR1 and USR2 (and what the user lists) go on to the workers; TSTP stops
// this command and CONT wakes it, while the workers train on.
//
// Thread: the Asio loop. Ownership: borrows the supervisor and the output, which must outlive it.
#pragma once

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <vector>

#include "cli/config/run_config.h"
#include "cli/output/run_output.h"
#include "supervisor/supervisor.h"

namespace elastictrain::cli {

enum class SignalMeaning { kDrain, kStopNow, kPreempt, kPass, kSuspend, kNothing };

// Pure: what a signal means when the run is already leaving, or not.
SignalMeaning meaning_of(int signal, bool leaving, HangUpChoice hang_up);

// Numbers of the signals that go on to workers. USR1 as a notice to leave is for us: a program without a handler for it
// would die of it before the next step boundary.
std::vector<int> forwarded_signals(const SignalsConfig& signals, bool usr1_drains);

class RunSignals {
 public:
  RunSignals(asio::io_context& io, Supervisor& supervisor, RunOutput& output, const SignalsConfig& signals);
  void stop();

 private:
  void wait();
  void handle(int signal);
  void suspend();

  asio::signal_set signals_;
  Supervisor& supervisor_;
  RunOutput& output_;
  const HangUpChoice hang_up_;
  bool leaving_ = false;
};

}  // namespace elastictrain::cli
