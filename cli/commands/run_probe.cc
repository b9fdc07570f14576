#include "cli/commands/run_probe.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "supervisor/control/control_client.h"
#include "supervisor/run_directory.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {
namespace {

// The supervisor of a run holds the lock of its directory as long as it lives.
bool is_locked(const std::string& directory) {
  const int lock = ::open((directory + "/lock").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (lock < 0) return false;
  const bool locked = ::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(lock);
  return locked;
}

}  // namespace

jobs::Probed probe_run(const jobs::Job& job) {
  using State = jobs::Probed::State;
  jobs::Probed answer{job.id, State::kUnknown, 0};
  if (job.owner.uid != ::geteuid()) return answer;
  std::string directory = job.directory;
  if (directory.empty()) {
    const auto own = run_directory_of(job.spec.name);
    if (own.ok()) directory = *own;
  }
  if (directory.empty() || (::access(directory.c_str(), R_OK) != 0 && errno == EACCES)) return answer;
  if (control::is_live(directory) || is_locked(directory)) {
    answer.state = State::kAlive;
    return answer;
  }
  const auto record = load_run_record(directory);
  if (!record.ok()) {
    if (record.error().code == ErrorCode::kUnavailable) answer.state = State::kNoRun;
  } else if (!record->end) {
    answer.state = State::kDead;
  } else if (record->end->ended_unix_s < job.submitted_unix_s) {
    answer.state = State::kNoRun;  // of an older run of this name
  } else {
    answer.state = State::kEnded;
    answer.status = record->end->exit_status;
  }
  return answer;
}

}  // namespace elastictrain::cli
