// Purpose: the directory of a run: journal, control socket, the claim on its name, and the machine on which its
// supervisor runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "supervisor/protocol/result.h"
#include "supervisor/transport/owned_directory.h"

// The machine of a run's supervisor, for commands on another machine that sees the same run directory (a login
// node with a shared home): its control socket answers on its own machine only.
//
// The supervisor writes the file when it claims the directory. It is gone for certain where its lock can be taken, and
// there for certain where the lock is held. A file system without locks shows neither; then nobody is kept from taking
// the run over. Thread: any one.

namespace elastictrain {

struct RunPlace {
  std::string host;  // as `hostname` says it there
  std::int64_t pid = 0;
  std::string slurm_job;  // id; empty: none
  bool certain = false;   // its lock is held
};

// Best effort: without the file, other machines take the run for one that has lost its supervisor.
void record_place(const std::string& run_directory);

// Where the supervisor is, if that is another machine and nothing shows that it has ended.
std::optional<RunPlace> supervisor_elsewhere(const std::string& run_directory);

// The same, if it is there for certain: a run that must not be taken over.
std::optional<RunPlace> supervisor_held_elsewhere(const std::string& run_directory);

// "run NAME is supervised on node3 (process 12), …", with a command that asks it.
std::string describe_elsewhere(const std::string& run_name, const RunPlace& place);

// The directory in which a run keeps its journal and its control socket, and the rule that one name belongs to
// one running run.
// Ownership: a RunDirectory holds the claim (a lock on a file inside) until it is destroyed or its process exits.
// Thread: any one. Errors: values that name the path and what to do.

// $ELASTICTRAIN_STATE_DIR, else $XDG_STATE_HOME/elastictrain, else ~/.local/state/elastictrain. Not created here.
// kDenied if it is there and this user may not read it.
Result<std::string> state_directory();

// Letters, digits, '.', '_' and '-', at most 64, the first one a letter or digit: a name is also a directory.
Status check_run_name(const std::string& name);

// <state>/<run name>.
Result<std::string> run_directory_of(const std::string& run_name);

class RunDirectory {
 public:
  // kRefused: its run is running. Otherwise as OwnedDirectory::claim().
  static Result<RunDirectory> claim(const std::string& path);
  // The supervisor of a run holds its directory as long as it lives.
  static bool is_held(const std::string& path);
  // Whether claim() would succeed; changes nothing.
  static Status may_claim(const std::string& path);

  const std::string& path() const { return held_.path(); }
  std::string socket_path() const;
  std::string journal_path() const;

 private:
  explicit RunDirectory(transport::OwnedDirectory held) : held_(std::move(held)) {}
  transport::OwnedDirectory held_;
};

}  // namespace elastictrain
