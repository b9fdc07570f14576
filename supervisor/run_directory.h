// Purpose: the directory in which a run keeps its journal and its control socket, and the rule that one name belongs to
// one running run.
// Ownership: a RunDirectory holds the claim (a lock on a file inside) until it is destroyed or its process exits.
// Thread: any one. Errors: values that name the path and what to do.
#pragma once

#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain {

// $ELASTICTRAIN_STATE_DIR, else $XDG_STATE_HOME/elastictrain, else ~/.local/state/elastictrain. Not created here.
// kDenied if it is there and this user may not read it.
Result<std::string> state_directory();

// Letters, digits, '.', '_' and '-', at most 64, the first one a letter or digit: a name is also a directory.
Status check_run_name(const std::string& name);

// <state>/<run name>.
Result<std::string> run_directory_of(const std::string& run_name);

class RunDirectory {
 public:
  // Makes the directory with mode 0700 if it is missing. Refuses one that belongs to another user, and one whose run is
  // running; the control socket of a run that is gone is removed.
  static Result<RunDirectory> claim(const std::string& path);
  // The supervisor of a run holds its directory as long as it lives.
  static bool is_held(const std::string& path);
  // Whether claim() would succeed; changes nothing.
  static Status may_claim(const std::string& path);

  ~RunDirectory();
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&& other) noexcept;

  const std::string& path() const { return path_; }
  std::string socket_path() const;
  std::string journal_path() const;

 private:
  RunDirectory(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_ = -1;
};

}  // namespace elastictrain
