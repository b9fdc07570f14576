#include "train/session/process_signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace elastictrain::session {
namespace {

// A handler can use globals only; all of these are async-signal-safe.
std::atomic<pid_t> process{0};
std::atomic<pid_t> agent_process{-1};
std::atomic<pid_t> helped_worker{-1};  // of a process that only helps one
std::atomic<pid_t> sender{0};
std::atomic<bool> has_come{false};
std::atomic<bool> is_new{false};
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void end_by(int number) {
  ::signal(number, SIG_DFL);
  ::raise(number);  // takes effect when the handler returns
}

void on_term_to_helper(int number, siginfo_t* info) {
  const pid_t from = info->si_pid;
  if (from == ::getppid() || from == agent_process || from == helped_worker || from == ::getpid()) end_by(number);
}

void on_term(int number, siginfo_t* info, void*) {
  if (::getpid() != process) return on_term_to_helper(number, info);
  if (info->si_pid == agent_process || has_come.exchange(true)) return end_by(number);
  sender = info->si_pid;
  is_new = true;
}

void ignore(int) {}

struct sigaction action_of(int number) {
  struct sigaction action {};
  ::sigaction(number, nullptr, &action);
  return action;
}

void handle_term() {
  struct sigaction action {};
  action.sa_sigaction = on_term;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

TermNotice::TermNotice(pid_t agent, bool usr1_is_notice) {
  if (usr1_is_notice && action_of(SIGUSR1).sa_handler == SIG_DFL) ::signal(SIGUSR1, ignore);
  if (action_of(SIGTERM).sa_handler != SIG_DFL) return;
  process = ::getpid();
  agent_process = agent;
  has_come = false;
  is_new = false;
  handle_term();
}

TermNotice::~TermNotice() {
  if (action_of(SIGUSR1).sa_handler == ignore) ::signal(SIGUSR1, SIG_DFL);
  if (action_of(SIGTERM).sa_sigaction == on_term) ::signal(SIGTERM, SIG_DFL);
}

std::optional<pid_t> TermNotice::take() {
  if (!is_new.exchange(false)) return std::nullopt;
  return sender.load();
}

// With a handler, since what is ignored stays ignored in a program that this process executes.
void ignore_notices(pid_t worker) {
  helped_worker = worker;
  process = 0;
  handle_term();
  for (const int number : {SIGINT, SIGUSR1, SIGUSR2}) {
    if (action_of(number).sa_handler == SIG_DFL) ::signal(number, ignore);
  }
}

}  // namespace elastictrain::session
