// Purpose: handles the signals that `run` gets. The first Ctrl-C drains, the second stops, the third kills. TERM and
// HUP are a preemption (HUP is ignored by a run that outlives its terminal, and under nohup). USR1 and USR2 (and those
// that the user lists) are forwarded to the workers. TSTP stops this command and CONT wakes it, while the workers
// continue to train.
//
// Thread: the Asio loop. Ownership: borrows the supervisor and the output, which must outlive it.
#pragma once

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <vector>

#include "cli/config/run_config.h"
#include "cli/output/run_output.h"
#include "supervisor/supervisor.h"

namespace elastictrain::cli {

enum class SignalMeaning { kDrain, kStopNow, kKillNow, kPreempt, kPass, kSuspend, kNothing };
enum class Leaving { kNo, kAtBoundary, kAtOnce };

// Pure: the meaning of a signal, which depends on whether the run is already stopping.
SignalMeaning meaning_of(int signal, Leaving leaving, HangUpChoice hang_up);

// Numbers of the signals forwarded to workers. USR1 as a notice to stop is not forwarded: it would kill a program
// without a handler before the next step boundary.
std::vector<int> forwarded_signals(const SignalsConfig& signals, bool usr1_drains);

// INT, TERM and HUP wait while one exists: a run that they end then is one that nobody could end properly.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

class RunSignals {
 public:
  // `grace`: what workers are given between TERM and KILL.
  RunSignals(asio::io_context& io, Supervisor& supervisor, RunOutput& output, const SignalsConfig& signals,
             std::chrono::milliseconds grace);
  void stop();

 private:
  void wait();
  void handle(int signal);
  void suspend();

  asio::signal_set signals_;
  Supervisor& supervisor_;
  RunOutput& output_;
  const HangUpChoice hang_up_;
  const std::chrono::milliseconds grace_;
  Leaving leaving_ = Leaving::kNo;
};

}  // namespace elastictrain::cli
