#include "cli/commands/run_probe.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "supervisor/control/control_client.h"
#include "supervisor/run_directory.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {

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
  if (control::is_live(directory) || RunDirectory::is_held(directory)) {
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
