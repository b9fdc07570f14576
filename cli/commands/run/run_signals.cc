#include "cli/commands/run/run_signals.h"

#include <unistd.h>

#include <asio/error_code.hpp>
#include <csignal>

#include "cli/config/checks.h"
#include "cli/output/figures.h"
#include "cli/output/progress.h"

namespace elastictrain::cli {
namespace {

// Under nohup, HUP is ignored before this program starts, and stays so.
bool is_ignored(int signal) {
  struct sigaction current {};
  return sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN;
}

}  // namespace

SignalMeaning meaning_of(int signal, Leaving leaving, HangUpChoice hang_up) {
  if (signal == SIGHUP && hang_up == HangUpChoice::kIgnore) return SignalMeaning::kNothing;
  switch (signal) {
    case SIGINT:
      if (leaving == Leaving::kNo) return SignalMeaning::kDrain;
      return leaving == Leaving::kAtBoundary ? SignalMeaning::kStopNow : SignalMeaning::kKillNow;
    case SIGTERM:
    case SIGHUP:
      // Batch systems may send TERM more than once. Only a second Ctrl-C of a user means "at once".
      return leaving == Leaving::kNo ? SignalMeaning::kPreempt : SignalMeaning::kNothing;
    case SIGTSTP:
      return SignalMeaning::kSuspend;
    default:
      return SignalMeaning::kPass;
  }
}

std::vector<int> forwarded_signals(const SignalsConfig& signals, bool usr1_drains) {
  std::vector<int> numbers;
  for (const std::string& name : signals.forward) {
    const int number = signal_number(name);
    const bool is_notice = number == SIGUSR1 && usr1_drains;
    if (number != 0 && !is_notice) numbers.push_back(number);
  }
  return numbers;
}

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

RunSignals::RunSignals(asio::io_context& io, Supervisor& supervisor, RunOutput& output, const SignalsConfig& signals,
                       std::chrono::milliseconds grace)
    : signals_(io),
      supervisor_(supervisor),
      output_(output),
      hang_up_(is_ignored(SIGHUP) ? HangUpChoice::kIgnore : signals.hup),
      grace_(grace) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2}) signals_.add(signal);
  for (const int signal : forwarded_signals(signals, false)) signals_.add(signal);
  wait();
}

void RunSignals::stop() {
  asio::error_code ignored;
  signals_.cancel(ignored);
}

void RunSignals::wait() {
  signals_.async_wait([this](const asio::error_code& error, int signal) {
    if (error) return;
    handle(signal);
    wait();
  });
}

void RunSignals::handle(int signal) {
  const SignalMeaning meaning = meaning_of(signal, leaving_, hang_up_);
  switch (meaning) {
    case SignalMeaning::kDrain:
      leaving_ = Leaving::kAtBoundary;
      output_.say(render_progress_plain(supervisor_.figures()));
      output_.say("elastictrain: stopping at the next step boundary; press Ctrl-C again to stop at once");
      return supervisor_.request_stop(core::StopCause::kInterrupt);
    case SignalMeaning::kStopNow:
      leaving_ = Leaving::kAtOnce;
      output_.say("elastictrain: stopping at once; workers that have not ended after " +
                  format_duration(std::chrono::duration<double>(grace_).count()) +
                  " are killed (--grace); press Ctrl-C again to kill them now");
      return supervisor_.stop_now();
    case SignalMeaning::kKillNow:
      output_.say("elastictrain: killing the workers");
      return supervisor_.kill_now();
    case SignalMeaning::kPreempt:
      leaving_ = Leaving::kAtBoundary;
      output_.say(std::string("elastictrain: received ") + (signal == SIGHUP ? "HUP" : "TERM") +
                  "; stopping at the next step boundary");
      return supervisor_.request_stop(core::StopCause::kPreempted);
    case SignalMeaning::kSuspend:
      return suspend();
    case SignalMeaning::kPass:
      return supervisor_.forward_signal(signal);
    case SignalMeaning::kNothing:
      return;
  }
}

void RunSignals::suspend() {
  supervisor_.forward_signal(SIGTSTP);
  output_.say("elastictrain: suspended; the workers continue to train until the orphan grace ends");
  // We handle TSTP, so its default action does not happen. STOP replaces it.
  ::kill(::getpid(), SIGSTOP);
}

}  // namespace elastictrain::cli
