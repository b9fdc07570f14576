#include "train/session/term_notice.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace elastictrain::session {
namespace {

// A handler can use globals only; all of these are async-signal-safe.
std::atomic<pid_t> process{0};
std::atomic<pid_t> agent_process{0};
std::atomic<pid_t> sender{0};
std::atomic<bool> has_come{false};
std::atomic<bool> is_new{false};
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_term(int number, siginfo_t* info, void*) {
  const bool is_order = ::getpid() != process || info->si_pid == agent_process;
  if (is_order || has_come.exchange(true)) {
    ::signal(number, SIG_DFL);
    ::raise(number);  // takes effect when the handler returns
    return;
  }
  sender = info->si_pid;
  is_new = true;
}

struct sigaction action_of_term() {
  struct sigaction action {};
  ::sigaction(SIGTERM, nullptr, &action);
  return action;
}

}  // namespace

TermNotice::TermNotice(pid_t agent) {
  if (action_of_term().sa_handler != SIG_DFL) return;
  process = ::getpid();
  agent_process = agent;
  has_come = false;
  is_new = false;
  struct sigaction action {};
  action.sa_sigaction = on_term;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);
}

TermNotice::~TermNotice() {
  if (action_of_term().sa_sigaction == on_term) ::signal(SIGTERM, SIG_DFL);
}

std::optional<pid_t> TermNotice::take() {
  if (!is_new.exchange(false)) return std::nullopt;
  return sender.load();
}

}  // namespace elastictrain::session
